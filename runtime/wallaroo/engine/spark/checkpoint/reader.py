"""Reads the state of a query as of a committed epoch from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.spark.checkpoint.paths import plain_path
from wallaroo.engine.spark.checkpoint.spool import Spool
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_logs(session: SparkSession, checkpoint: Path, epoch: int) -> Iterator[Iterator[bytes]]:
    """Yield the records of each bucket's log.

    Args:
        session: The Spark session; may be that of the query.
        checkpoint: Directory of the query's checkpoint; the query may be running.
        epoch: A recent epoch; the state is that at its end.

    Raises:
        RuntimeFailure: Spark failed to read the state.
    """
    with plain_path(checkpoint) as path, Spool(session, checkpoint) as spool:
        try:
            rows = (
                session.read.format("statestore")
                .option("batchId", str(epoch))
                .option("stateVarName", "log")
                .load(str(path))
                .selectExpr("to_json(key)", "user_map_key.place", "user_map_value.record")
            )
            yield from spool.logs(rows)
        except RuntimeFailure:
            raise
        except Exception as error:
            msg = f"the state in {checkpoint} cannot be read: {cause_of(str(error))}"
            raise RuntimeFailure(msg) from error
