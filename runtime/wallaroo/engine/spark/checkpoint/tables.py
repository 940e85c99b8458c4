"""Tables of RocksDB, in which snapshots keep the state: their checksums, checked by RocksDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_problem(session: SparkSession, file: Path) -> str | None:
    """What is wrong with the table *file*; None if nothing is, or Spark's Java has ended."""
    from py4j.protocol import Py4JError, Py4JJavaError

    rocksdb = session._jvm.org.rocksdb
    try:
        rocksdb.RocksDB.loadLibrary()
        options = rocksdb.Options()
        reader = rocksdb.SstFileReader(options)
        try:
            reader.open(str(file))
            reader.verifyChecksum()
        finally:
            reader.close()
            options.close()
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage()).partition(" in /")[0]
    except (Py4JError, OSError):
        return None
    return None
