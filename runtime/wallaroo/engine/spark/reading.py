"""The state of a query as of its last committed batch, read out of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.engine.entities import EntityCache
from wallaroo.engine.spark.cause import cause_of
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_state(
    session: SparkSession, checkpoint: Path, levels: int, cache: EntityCache
) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Entities by key, bucket by bucket, each with the name of its state partition.

    Args:
        session: Spark.
        checkpoint: Directory of the query's checkpoint; the query may run.
        levels: Levels of the program.
        cache: Knows the partitions, and how their entities are saved.

    Raises:
        RuntimeFailure: Spark could not read it.
    """
    for operator in range(levels):
        try:
            rows = (
                session.read.format("statestore")
                .option("operatorId", str(operator))
                .option("stateVarName", "log")
                .option("flattenCollectionTypes", "false")
                .load(str(checkpoint))
                .select("list_value")
            )
            found: Iterable[Any] = rows.toLocalIterator()
            for row in found:
                bucket = cache.read(bytes(element[0]) for element in row[0])
                for name, entities in zip(cache.partitions, bucket.entities, strict=True):
                    if entities:
                        yield name, entities
        except RuntimeFailure:
            raise
        except Exception as error:
            msg = f"the state in {checkpoint} cannot be read: {cause_of(str(error))}"
            raise RuntimeFailure(msg) from error
