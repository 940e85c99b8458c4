"""One Spark for each process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.helpers import PATIENCE_S, wait_until
from tests.spark.in_process import InProcess
from wallaroo.engine.spark.executors import running_tasks
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.errors import UsageError

pytestmark = pytest.mark.spark


def test_a_process_that_runs_spark_cannot_start_another(
    on_spark: InProcess, tmp_path: Path
) -> None:
    with pytest.raises(
        UsageError, match="'other' cannot start Spark, because it is already running"
    ):
        Launch("other", SparkSettings("local[1]", 1, tmp_path))
    assert on_spark.session.range(2).count() == 2


def test_tasks_that_have_not_ended_are_counted(on_spark: InProcess, tmp_path: Path) -> None:
    begun, may_end = tmp_path / "begun", tmp_path / "may-end"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        while not may_end.exists():
            time.sleep(0.01)
        yield from batches

    rows = on_spark.session.range(1).coalesce(1)
    rows = rows.mapInArrow(wait, rows.schema)
    job = threading.Thread(target=rows.collect)
    wait_until(lambda: running_tasks(on_spark.session) == 0, "the end of other tasks")
    job.start()
    wait_until(begun.exists, "the task", PATIENCE_S)
    assert running_tasks(on_spark.session) == 1
    may_end.touch()
    job.join()
    wait_until(lambda: running_tasks(on_spark.session) == 0, "the end of the task")
