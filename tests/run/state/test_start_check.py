"""What a start of a run checks of its checkpoint and its log, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import finished, opened, outputs, publish
from tests.gateway.log_files import flip, places
from tests.helpers import PATIENCE_S
from wallaroo.errors import RESTORE, DamagedFile, UsageError
from wallaroo.gateway.entries import MESSAGES, OUTPUTS
from wallaroo.gateway.log.records import SNAPSHOT
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.start_check import LocalFiles, agree

PLACE = {"offset": 0, "chunk": 0, "opening": None, "imported": None}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    """A state of two partitions, of which nothing is processed."""
    directory = StateDirectory(tmp_path, "app", 2)
    yield directory
    directory.close()


def plan(state: StateDirectory, partitions: int) -> None:
    """Write the files of a first epoch of *partitions* partitions as Spark does."""
    for log in ("offsets", "commits"):
        (state.checkpoint / log).mkdir(parents=True, exist_ok=True)
    (state.checkpoint / "metadata").write_text('{"id":"bc1071e6-8860-4bda-83e0-d3a64ae5d2c1"}')
    settings = {"conf": {"spark.sql.shuffle.partitions": str(partitions)}}
    lines = ["v1", json.dumps(settings), json.dumps(PLACE)]
    (state.checkpoint / "offsets" / "0").write_text("\n".join(lines))
    (state.checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_another_number_of_partitions_in_the_last_epoch_is_refused(state: StateDirectory) -> None:
    """Spark would look for keys in partitions where they are not."""
    agree(state, LocalFiles(state.path))
    plan(state, 2)
    agree(state, LocalFiles(state.path))
    for partitions, told_as in ((1, "1 partition"), (3, "3 partitions")):
        plan(state, partitions)
        problem = f"has {told_as}, and the state has 2: if a change of the number"
        with pytest.raises(UsageError, match=problem) as told:
            agree(state, LocalFiles(state.path))
        assert str(told.value).endswith(RESTORE)


def test_damage_is_refused_with_the_option_that_starts_without_it(state: StateDirectory) -> None:
    with opened(state.path) as store:
        for payload in (b"one", b"two"):
            store.journal.submit(0, 1, payload)
            assert store.journal.flush(PATIENCE_S)
    place = places(state.path, MESSAGES)[0]
    flip(place.file, place.end - 1)
    before = place.file.read_bytes()
    told = f"record {place.record.number} is not as written; .*, or start once with --skip-damaged"
    with pytest.raises(DamagedFile, match=told):
        agree(state, LocalFiles(state.path))
    files = LocalFiles(state.path, skip_damaged=True)
    agree(state, files)
    held = files.held()
    assert place.file.read_bytes() == before  # only the gateway sets damage aside
    with opened(state.path, skip_damaged=True) as store:
        assert held.end == store.journal.end == 2
    agree(state, LocalFiles(state.path))  # nothing is damaged any more


def test_what_is_left_of_a_damaged_log_is_compared_with_the_checkpoint(
    state: StateDirectory,
) -> None:
    with opened(state.path) as store:
        publish(store, finished(1, outputs(b"out"), change=b"change"))
    plan(state, 2)
    (made,), (tables,) = places(state.path, OUTPUTS), places(state.path, SNAPSHOT)
    files = LocalFiles(state.path, skip_damaged=True)
    flip(made.file, made.end - 1)
    with pytest.raises(UsageError, match="is not the one that the log belongs to"):
        agree(state, files)
    flip(tables.file, tables.end - 1)
    with pytest.raises(DamagedFile, match="no record is left that says what was in it before"):
        agree(state, files)
