"""Logs come from Spark's tasks in files, whatever the order of their rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from wallaroo.dataflow.log_rows import BASE, ROW_BYTES, LogRow, rows_of
from wallaroo.engine.spark.checkpoint.spool import Spool

LOGS = {
    '{"slot":1}': {0: b"one", 1: b"x" * (2 * ROW_BYTES + 1)},
    '{"slot":2}': {BASE: b"y" * ROW_BYTES, 5: b"two"},
}
"""Records by log and index."""
Rows = Sequence[tuple[str, LogRow]]


class Written:
    """In the place of `Spool.scala`: each of several tasks writes its rows to a file."""

    def __init__(self, of_tasks: Sequence[Rows]) -> None:
        self._of_tasks = of_tasks

    def write(self, _rows: object, directory: str) -> list[str]:
        for number, rows in enumerate(self._of_tasks):
            with Path(directory, str(number)).open("xb") as out:
                for log, row in rows:
                    out.write(struct.pack(">qII", row.place, len(log), len(row.content)))
                    out.write(log.encode() + row.content)
        return [str(number) for number in range(len(self._of_tasks))]


def rows_in(*of_tasks: Rows) -> DataFrame:
    realtime = SimpleNamespace(Spool=Written(of_tasks))
    jvm = SimpleNamespace(wallaroo=SimpleNamespace(realtime=realtime))
    return cast("DataFrame", SimpleNamespace(_jdf=None, sparkSession=SimpleNamespace(_jvm=jvm)))


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
        found = [list(records) for records in opened.logs(rows_in(*of_tasks, []))]
        assert found == [[record for _, record in sorted(one.items())] for one in LOGS.values()]
        assert master.startswith("local") or not list(left.parent.iterdir())
    assert master.startswith("local") or not left.parent.exists()
