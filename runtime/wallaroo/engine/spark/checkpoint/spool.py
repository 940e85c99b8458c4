"""Logs of buckets on their way from Spark's state store to this process: in files.

Spark's Java would hold all rows of a partition in memory to hand them over, and end if they do not
fit. So the tasks that read the state write it to files (`Spool.scala`), of which this process reads
one log at a time.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wallaroo.dataflow.log_rows import records_in
from wallaroo.system.private_files import DIRECTORY_MODE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW = struct.Struct(">qII")
"""Place of a row of a log, size of the log's name, and size of the row; both follow."""
_FOLDER = ".reading"


class _Stored(NamedTuple):
    """Where a row is."""

    place: int
    file: Path
    start: int
    size: int


class Spool:
    """A directory for the files; a context manager.

    Args:
        session: The Spark session; executors on other machines must have the checkpoint.
        checkpoint: The checkpoint that is read, by one process at a time.
    """

    def __init__(self, session: SparkSession, checkpoint: Path) -> None:
        is_local = session.sparkContext.master.startswith("local")
        self._shared = None if is_local else checkpoint / _FOLDER
        self._directory = Path()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Spool:
        if self._shared is None:
            made = tempfile.TemporaryDirectory(prefix="wallaroo-")
            self._directory = Path(self._stack.enter_context(made))
            return self
        shutil.rmtree(self._shared, ignore_errors=True)  # what a killed process has left
        self._shared.mkdir(mode=DIRECTORY_MODE)
        self._stack.callback(shutil.rmtree, self._shared, ignore_errors=True)
        self._directory = self._shared
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def logs(self, rows: DataFrame) -> Iterator[Iterator[bytes]]:
        """Yield the records of each log, in order.

        Args:
            rows: Rows of logs: the name of a log, a place and a content.
        """
        jvm: Any = rows.sparkSession._jvm
        names = list(jvm.wallaroo.realtime.Spool.write(rows._jdf, str(self._directory)))
        by_log: dict[bytes, list[_Stored]] = defaultdict(list)
        for name in names:
            for log, row in _stored(self._directory / name):
                by_log[log].append(row)
        for stored in by_log.values():
            yield records_in((row.place, _content(row)) for row in stored)
        for name in names:
            (self._directory / name).unlink()


def _stored(file: Path) -> Iterator[tuple[bytes, _Stored]]:
    """The name of its log, and where it is, for each row in *file*."""
    with file.open("rb") as opened:
        while header := opened.read(_ROW.size):
            place, named, size = _ROW.unpack(header)
            log = opened.read(named)
            yield log, _Stored(place, file, opened.tell(), size)
            opened.seek(size, 1)


def _content(row: _Stored) -> bytes:
    with row.file.open("rb") as opened:
        opened.seek(row.start)
        return opened.read(row.size)
