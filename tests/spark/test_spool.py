"""Tasks of Spark write the rows that they read to files, as `Spool` reads them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from wallaroo.engine.spark.checkpoint.spool import Spool

pytestmark = pytest.mark.spark

HEAD = struct.Struct(">qII")


def test_the_rows_of_all_tasks_are_there_once(session: SparkSession, tmp_path: Path) -> None:
    rows = session.range(100).selectExpr(
        "concat('log ', id % 2) AS log", "1000 * id AS place", "cast(cast(id AS string) AS binary)"
    )
    names = session._jvm.wallaroo.realtime.Spool.write(rows.repartition(3)._jdf, str(tmp_path))
    found = b"".join((tmp_path / name).read_bytes() for name in names)
    read, start = [], 0
    while start < len(found):
        place, named, size = HEAD.unpack_from(found, start)
        middle, end = start + HEAD.size + named, start + HEAD.size + named + size
        read.append((found[start + HEAD.size : middle].decode(), place, found[middle:end]))
        start = end
    assert sorted(read) == sorted((f"log {n % 2}", 1000 * n, b"%d" % n) for n in range(100))


def test_records_come_log_by_log(session: SparkSession, tmp_path: Path) -> None:
    none = session.range(0).selectExpr("'log' AS log", "id AS place", "cast('' AS binary)")
    with Spool(session, tmp_path) as spool:
        assert not list(spool.logs(none))
