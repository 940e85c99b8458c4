"""A query that does nothing, after which Java has loaded and compiled what the next one needs.

It may run beside another one, on executors that are to take a part of that.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from wallaroo.engine.realtime.state_import import ImportJob, run_import
from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.spark.session import SPARK_LEVEL
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.stored import StateLayout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "warm-up"
_PATIENCE_S = 60.0
"""Time for the query to end."""
_REMOVALS, _KILLED_S = 20, 0.3
"""Attempts to remove the checkpoint, and seconds after each in which tasks may still write."""
_numbers = itertools.count(1)

log = structlog.get_logger("wallaroo")


def warm_up(session: SparkSession, partitions: int, directory: Path) -> None:
    """Run a query without messages; if that fails, the next one only takes longer to start.

    Args:
        session: Spark, with a free slot for the first stage and for each partition.
        partitions: Partitions of the state.
        directory: Where its checkpoint is in the meantime: a directory that executors have as well.
    """
    started = time.monotonic()
    checkpoint = directory / f"{_NAME}-{uuid.uuid4().hex}"
    job = ImportJob(Path(os.devnull), _NAME, slots_for(partitions), checkpoint)
    layout = StateLayout(_NAME, partitions, partitions, checkpoint)
    level = session.conf.get("spark.log.level", SPARK_LEVEL)
    session.sparkContext.setLogLevel("OFF")  # the query is stopped in its second epoch
    try:
        run_import(session, job, layout, -next(_numbers), _PATIENCE_S)
        log.info("warmed up", seconds=round(time.monotonic() - started, 1))
    except Exception as error:
        log.warning("not warmed up", reason=cause_of(str(error)))
    finally:
        with contextlib.suppress(Exception):  # Spark has been stopped meanwhile
            session.sparkContext.setLogLevel(str(level))
            _remove(session, checkpoint)


def _remove(session: SparkSession, directory: Path) -> None:
    """Remove *directory*, wherever it is; tasks that are being killed may make it once more."""
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(directory))
    files = path.getFileSystem(session._jsc.hadoopConfiguration())
    for _ in range(_REMOVALS):
        files.delete(path, True)
        time.sleep(_KILLED_S)
        if not files.exists(path):
            return
