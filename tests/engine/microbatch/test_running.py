"""When batches are held: by a pause, while changed code is taken, or both."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import WORD_COUNT
from wallaroo.dataflow.program import Program
from wallaroo.engine.microbatch.job import Job, Readers
from wallaroo.engine.microbatch.running import RunningMicroBatch
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.model.loader import ApplicationRef
from wallaroo.testing import load


@pytest.fixture
def running(tmp_path: Path) -> Any:
    """An engine without its Spark, on two workers."""
    running: Any = RunningMicroBatch.__new__(RunningMicroBatch)
    readers = Readers(str(tmp_path / "readers"))
    readers.set(2)
    running._readers, running._ranges = readers, 2
    running._holding, running._looking_up = threading.Lock(), threading.Lock()
    running._held = running._reloads = False
    running._executors = None
    running._query = SimpleNamespace(
        finish_batch=lambda: None,
        replace=lambda: None,
        reconsider=lambda: None,
        failure=lambda: None,
    )
    connector = Connector("grpc+tcp://127.0.0.1:9", 1)
    reference = ApplicationRef("none")
    running._job = Job("run", reference, connector, 8, (), readers, tmp_path)
    return running


def reload(running: Any) -> list[int]:
    """Take changed code; returns in how many ranges batches were read meanwhile, and are then."""
    seen: list[int] = []
    program = Program(load(WORD_COUNT), 8)
    running.reload(ApplicationRef("none"), program, lambda: seen.append(running._readers.now()))
    return [*seen, running._readers.now()]


def test_a_hold_ends_with_its_release_and_new_workers_do_not_end_it(running: Any) -> None:
    running.hold()
    running.scale(5)
    assert running._readers.now() == 0
    running.release()
    assert running._readers.now() == 5


def test_changed_code_is_taken_between_batches(running: Any) -> None:
    assert reload(running) == [0, 2]


def test_changed_code_does_not_end_a_pause(running: Any) -> None:
    running.hold()
    assert reload(running) == [0, 0]
    running.release()
    assert running._readers.now() == 2
