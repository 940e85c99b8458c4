"""Logs come from Spark's tasks in files, whatever the order of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from wallaroo.dataflow.log_rows import BASE, ROW_BYTES, LogRow, rows_of
from wallaroo.engine.spark.checkpoint.spool import Spool

LOGS = {
    '{"slot":1}': {0: b"one", 1: b"x" * (2 * ROW_BYTES + 1)},
    '{"slot":2}': {BASE: b"y" * ROW_BYTES, 5: b"two"},
}
"""Records by log and index."""


class Tasks:
    """What a `DataFrame` does with rows of several tasks."""

    def __init__(self, *of_tasks: Sequence[tuple[str, LogRow]]) -> None:
        self._of_tasks = of_tasks
        self._function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def mapInArrow(self, function: Any, schema: str) -> Tasks:  # noqa: N802
        assert schema == "file string"
        self._function = function
        return self

    def collect(self) -> list[tuple[str]]:
        found: list[tuple[str]] = []
        for rows in self._of_tasks:
            names = ("log", "place", "part")
            batches = [
                pa.RecordBatch.from_arrays([[log], [row.place], [row.content]], names)
                for log, row in rows
            ]
            for made in self._function(batches):
                found += [(name,) for name in made.column(0).to_pylist()]
        return found


def spool(master: str, checkpoint: Path) -> Spool:
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    return Spool(cast("SparkSession", session), checkpoint)


@pytest.mark.parametrize("master", ["local[2]", "k8s://https://cluster"])
def test_records_of_each_log_come_in_order_and_no_file_stays(master: str, tmp_path: Path) -> None:
    of_tasks = [
        [(log, row) for index, record in records.items() for row in rows_of(index, record)][::-1]
        for log, records in LOGS.items()
    ]
    left = tmp_path / ".reading" / "left"
    left.parent.mkdir()
    left.touch()
    with spool(master, tmp_path) as opened:
        tasks = cast("DataFrame", Tasks(*of_tasks, []))
        found = [list(records) for records in opened.logs(tasks)]
        assert found == [[record for _, record in sorted(one.items())] for one in LOGS.values()]
        assert master.startswith("local") or not list(left.parent.iterdir())
    assert master.startswith("local") or not left.parent.exists()
