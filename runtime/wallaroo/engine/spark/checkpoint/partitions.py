"""Repartitions the state of a stopped query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.spark.checkpoint.paths import plain_path
from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.stored import LastBatch
from wallaroo.errors import RuntimeFailure, damaged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"


def is_needed(checkpoint: Path, partitions: int) -> bool:
    """Whether the state in *checkpoint* still has to be divided into *partitions* partitions.

    Raises:
        RuntimeFailure: The last batch was started but not committed; only the query can finish it.
    """
    batch, committed, current = last_batch(checkpoint)
    if not committed and current != partitions:
        msg = (
            f"the last batch of {checkpoint} (number {batch}) was started but not committed, and "
            "its outputs may have been sent: specify --gateway and --token-file of its gateway, "
            f"or start the application once more with its {current} partitions, stop it cleanly, "
            "and then repartition"
        )
        raise RuntimeFailure(msg)
    return not committed or current != partitions


def repartition(session: SparkSession, checkpoint: Path, partitions: int) -> None:
    """Rewrite the state in *checkpoint* with *partitions* partitions; see `is_needed`.

    This is an atomic batch of the query without messages. A call after an interrupted one completes
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


def has_batch(checkpoint: Path) -> bool:
    """Return whether a batch has been planned in *checkpoint*, which need not exist."""
    return any(file.name.isdigit() for file in checkpoint.glob("offsets/*"))


def unfinished_batch(checkpoint: Path) -> int:
    """Return the number of the batch in *checkpoint* that is planned and not committed; -1 if none.

    Raises:
        DamagedFile: Its file cannot be read.
    """
    if not has_batch(checkpoint):
        return -1
    last = last_batch(checkpoint)
    return -1 if last.ended else last.number


def last_batch(checkpoint: Path) -> LastBatch:
    """Return the last batch in *checkpoint*.

    Raises:
        DamagedFile: Its file cannot be read.
    """
    numbers = [int(file.name) for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()]
    last = max(numbers)
    file = checkpoint / "offsets" / str(last)
    try:
        _version, metadata, *_ = file.read_text().splitlines()
        partitions = int(json.loads(metadata)["conf"][_PARTITIONS])
    except (ValueError, LookupError, TypeError) as error:
        raise damaged(file, f"{type(error).__name__}: {error}") from error
    return LastBatch(last, (checkpoint / "commits" / str(last)).exists(), partitions)
