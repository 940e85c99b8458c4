"""Calls of the Scala modules that start a query and say why it has ended."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.engine.realtime.settings import LONGEST_EPOCH_MS
from wallaroo.wire.chunk_messages import CheckpointPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_query(
    session: SparkSession, name: str, attempt: int, job: object, partitions: int, checkpoint: Path
) -> Any:
    """Start a query; returns Java's object.

    Args:
        session: Spark.
        name: Name of the application.
        attempt: Number of the query among those of the driver.
        job: What its processes run; it is pickled.
        partitions: Partitions of the state.
        checkpoint: Directory of the query's checkpoint.
    """
    jvm: Any = session._jvm
    return jvm.wallaroo.realtime.Query.start(
        session._jsparkSession,
        name,
        attempt,
        pickle.dumps(job),
        partitions,
        str(checkpoint),
        CheckpointPosition().to_json(),
        LONGEST_EPOCH_MS,
    )


def claimed(session: SparkSession, name: str, text: str, *, replaces: bool) -> str:
    """Let *text* be the content of an object, if there is none yet; returns the content it has.

    Args:
        session: Spark.
        name: Location of the object.
        text: The content.
        replaces: Whether another content is replaced.
    """
    jvm: Any = session._jvm
    return str(
        jvm.wallaroo.realtime.ObjectStore.claim(session._jsparkSession, name, text, replaces)
    )


def why_ended(query: Any) -> str:
    """Why *query*, which has ended, did so, as Spark says it."""
    error = query.exception()
    return "the query stopped" if error.isEmpty() else str(error.get().toString())
