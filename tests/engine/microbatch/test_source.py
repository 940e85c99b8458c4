"""Which tasks run their messages in copies first: those that failed, or whose batch did."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wallaroo.dataflow.records import JOURNAL
from wallaroo.engine.batch_sizing import BatchLimits
from wallaroo.engine.gateway_api import Latest
from wallaroo.engine.microbatch import source
from wallaroo.engine.microbatch.job import Job, Readers
from wallaroo.engine.microbatch.source import JournalReader
from wallaroo.engine.spark import task_epoch
from wallaroo.engine.spark.checkpoint.partitions import unfinished_batch
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.model.loader import ApplicationRef


@pytest.mark.parametrize(
    ("attempt", "batch", "suspect", "isolates"),
    [(0, 7, -1, False), (1, 7, -1, True), (0, 7, 7, True), (0, 8, 7, False), (0, 0, -1, False)],
)
def test_a_batch_with_which_the_query_failed_is_suspect(
    monkeypatch: pytest.MonkeyPatch, attempt: int, batch: int, suspect: int, isolates: bool
) -> None:
    task = SimpleNamespace(
        attemptNumber=lambda: attempt,
        getLocalProperty=lambda name: str(batch) if name.endswith("batchId") else "query",
    )
    monkeypatch.setattr("pyspark.TaskContext.get", staticmethod(lambda: task))
    connector = Connector("grpc+tcp://127.0.0.1:9", 1)
    job = Job(
        *("run", ApplicationRef("none"), connector, 8, (), Readers("")),
        checkpoint=Path(),
        suspect=suspect,
    )
    assert task_epoch.task_epoch().number == batch
    assert source.is_tried_again(job) == isolates


def test_a_hold_while_it_waits_leaves_what_has_come_in_the_journal(tmp_path: Path) -> None:
    readers = Readers(str(tmp_path / "readers"))
    asked: list[int] = []

    def latest(*_: object) -> Latest:
        asked.append(readers.now())
        if len(asked) == 1:
            readers.set(0)  # while it waits for messages
        return Latest({JOURNAL: 5}, "opening")

    job: Any = SimpleNamespace(
        readers=readers,
        costs=None,
        batch=BatchLimits(),
        idle_wait_s=1.0,
        connect=lambda: SimpleNamespace(latest=latest),
    )
    readers.set(2)
    reader, start = JournalReader(job), {"offset": 0}
    assert reader.latestOffset(start, None) == start
    assert reader.latestOffset(start, None) == start
    assert asked == [2]
    readers.set(2)
    assert reader.latestOffset(start, None)["offset"] == 5


def test_a_batch_that_is_planned_and_not_committed_is_unfinished(tmp_path: Path) -> None:
    assert unfinished_batch(tmp_path) == -1
    for kind in ("offsets", "commits"):
        (tmp_path / kind).mkdir()
    metadata = json.dumps({"conf": {"spark.sql.shuffle.partitions": "2"}})
    for number in (0, 1):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{metadata}\n")
        assert unfinished_batch(tmp_path) == number
        (tmp_path / "commits" / str(number)).write_text("v1\n")
        assert unfinished_batch(tmp_path) == -1
