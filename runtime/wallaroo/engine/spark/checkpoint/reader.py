"""The state of a query as of a committed batch, read out of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.entities import EntityCache, Unloaded
from wallaroo.engine.base import Commit
from wallaroo.engine.spark.checkpoint.paths import plainly_spelled
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def last_commit(checkpoint: Path) -> Commit | None:
    """The last committed batch of the query whose *checkpoint* it is; None where there is none."""
    made = [file for file in (checkpoint / "commits").glob("*") if file.name.isdecimal()]
    if not made:
        return None
    last = max(made, key=lambda file: int(file.name))
    return Commit(int(last.name), last.stat().st_mtime)


def read_state(
    session: SparkSession, checkpoint: Path, batch: int, levels: int, cache: EntityCache
) -> Iterator[tuple[str, dict[Any, Any], Sequence[Unloaded]]]:
    """Name of a state partition, its entities by key, what could not be loaded; for each bucket.

    Args:
        session: Spark.
        checkpoint: Directory of the query's checkpoint; the query may run.
        batch: The batch as of whose end they are: one of the last.
        levels: Levels of the program.
        cache: Knows the partitions, and how their entities are saved.

    Raises:
        RuntimeFailure: Spark could not read it.
    """
    with plainly_spelled(checkpoint) as spelled:
        for operator in range(levels):
            try:
                rows = (
                    session.read.format("statestore")
                    .option("batchId", str(batch))
                    .option("operatorId", str(operator))
                    .option("stateVarName", "log")
                    .option("flattenCollectionTypes", "false")
                    .load(str(spelled))
                    .select("map_value")
                )
                found: Iterable[Any] = rows.toLocalIterator()
                for row in found:
                    in_order = sorted((place[0], record[0]) for place, record in row[0].items())
                    bucket = cache.read(bytes(record) for _, record in in_order)
                    for name, entities in zip(cache.partitions, bucket.entities, strict=True):
                        unloaded = [one for one in bucket.unloaded.values() if one.state == name]
                        if entities or unloaded:
                            yield name, entities, unloaded
            except RuntimeFailure:
                raise
            except Exception as error:
                msg = f"the state in {checkpoint} cannot be read: {cause_of(str(error))}"
                raise RuntimeFailure(msg) from error
