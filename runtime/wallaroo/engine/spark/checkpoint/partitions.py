"""The state of a query that does not run, cut into another number of partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.base import LastBatch
from wallaroo.engine.spark.checkpoint.paths import plainly_spelled
from wallaroo.engine.spark.checkpoint.relocate import settle
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"


def is_needed(checkpoint: Path, partitions: int) -> bool:
    """Whether the state in *checkpoint* is yet to be cut into *partitions* parts.

    Raises:
        RuntimeFailure: The last batch has begun and not ended: only the query itself can end it.
    """
    batch, committed, found = last_batch(checkpoint)
    if not committed and found != partitions:
        msg = (
            f"the last batch of {checkpoint} (number {batch}) has begun and not ended, and its "
            "outputs may be out already: give --gateway and --token-file of its gateway, or start "
            f"the application with its {found} partitions once more, stop it in good order, and "
            "repartition then"
        )
        raise RuntimeFailure(msg)
    return not committed or found != partitions


def repartition(session: SparkSession, checkpoint: Path, partitions: int) -> None:
    """Write the state in *checkpoint* anew in *partitions* parts; see `is_needed`.

    It becomes a batch of the query that reads nothing: done whole, or not at all. A call after one
    that was broken off finishes it.

    Args:
        session: Spark.
        checkpoint: Directory of the query's checkpoint; the query must not run.
        partitions: Parts wanted.

    Raises:
        RuntimeFailure: Spark could not do it.
    """
    try:
        with plainly_spelled(checkpoint) as spelled:
            session._streamingCheckpointManager.repartition(
                str(spelled), partitions, enforce_exactly_once_sink=True
            )
        settle(checkpoint)
    except Exception as error:
        msg = f"Spark did not repartition {checkpoint}: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error


def last_batch(checkpoint: Path) -> LastBatch:
    """The last batch in *checkpoint*."""
    numbers = [int(file.name) for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()]
    last = max(numbers)
    _version, metadata, *_ = (checkpoint / "offsets" / str(last)).read_text().splitlines()
    partitions = int(json.loads(metadata)["conf"][_PARTITIONS])
    return LastBatch(last, (checkpoint / "commits" / str(last)).exists(), partitions)
