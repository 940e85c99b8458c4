"""Divides the state of a stopped query into another number of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.spark.checkpoint.epochs import last_epoch
from wallaroo.engine.spark.checkpoint.paths import plain_path
from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import RuntimeFailure
from wallaroo.system.printable import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_needed(checkpoint: Path, partitions: int) -> bool:
    """Whether the state in *checkpoint* still has to be divided into *partitions* partitions.

    Raises:
        RuntimeFailure: The last epoch was cut off at its end, which only the query can repeat.
    """
    last = last_epoch(checkpoint)
    if not last.ended and last.partitions != partitions:
        msg = (
            f"the end of the last epoch of {checkpoint} (number {last.number}) was cut off: "
            f"start the application once more with its {counted(last.partitions, 'partition')}, "
            "stop it cleanly, and then repartition"
        )
        raise RuntimeFailure(msg)
    return not last.ended or last.partitions != partitions


def repartition(session: SparkSession, checkpoint: Path, partitions: int) -> None:
    """Rewrite the state in *checkpoint* with *partitions* partitions; see `is_needed`.

    This is an atomic epoch of the query without messages. A call after an interrupted one completes
    it.

    Args:
        session: The Spark session.
        checkpoint: Directory of the query's checkpoint; the query must not be running.
        partitions: New number of partitions.

    Raises:
        RuntimeFailure: Spark failed to repartition the state.
    """
    try:
        with plain_path(checkpoint) as path:
            session._streamingCheckpointManager.repartition(
                str(path), partitions, enforce_exactly_once_sink=True
            )
        relocate(checkpoint)
    except Exception as error:
        msg = f"Spark failed to repartition {checkpoint}: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error
