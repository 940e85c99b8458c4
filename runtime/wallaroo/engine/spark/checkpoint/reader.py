"""Reads the state of a query as of a committed epoch from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.buckets import Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.engine.spark.checkpoint.paths import plain_path
from wallaroo.engine.spark.checkpoint.spool import Spool
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import RuntimeFailure
from wallaroo.model.timing import KeyTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_state(
    session: SparkSession, checkpoint: Path, epoch: int, serializer: EntitySerializer
) -> Iterator[tuple[str, dict[Any, Any], Sequence[Unloaded], Mapping[Any, KeyTime]]]:
    """Yield, per bucket and state: name, entities, those that cannot be loaded, and times by key.

    Args:
        session: The Spark session.
        checkpoint: Directory of the query's checkpoint; the query may be running.
        epoch: A recent epoch; the state is that at its end.
        serializer: Defines the partitions and the serialization of their entities.

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
            for records in spool.logs(rows):
                bucket = serializer.read(records)
                for number, name in enumerate(serializer.partitions):
                    entities = bucket.entities[number]
                    unloaded = [one for one in bucket.unloaded.values() if one.state == name]
                    if entities or unloaded:
                        yield name, entities, unloaded, bucket.times_of(number)
        except RuntimeFailure:
            raise
        except Exception as error:
            msg = f"the state in {checkpoint} cannot be read: {cause_of(str(error))}"
            raise RuntimeFailure(msg) from error
