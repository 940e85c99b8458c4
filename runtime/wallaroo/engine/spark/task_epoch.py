"""The epoch that a task of Spark is part of: in a streaming query of micro-batches, the batch."""

from __future__ import annotations

import json
from typing import NamedTuple

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's names for properties of the thread that runs a batch, which its tasks inherit."""


class TaskEpoch(NamedTuple):
    """An epoch of a query."""

    run: str
    """Name of the query, as `run_of` its checkpoint: the same after each restart."""
    number: int
    """Number of the epoch."""


def task_epoch() -> TaskEpoch:
    """The epoch of the task that runs in this process now."""
    from pyspark import TaskContext  # the driver, too, imports this module, before it needs PySpark

    context = TaskContext.get()
    assert context is not None, "not in a task"
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    assert query is not None, "not in a task of a streaming query"
    assert batch is not None, "not in a task of a batch"
    return TaskEpoch(json.dumps({"id": query}, separators=(",", ":")), int(batch))
