"""The entities in a checkpoint, as of its last committed batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.entities import EntityCache, Unloaded
from wallaroo.dataflow.program import Program, codecs_of
from wallaroo.engine.spark.checkpoint.reader import last_commit, read_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointState:
    """The state in a checkpoint as of the last batch that is committed now.

    Args:
        session: Reads it; may be the one whose query writes it.
        checkpoint: Directory of the query's checkpoint.
        program: What the query runs.
    """

    def __init__(self, session: SparkSession, checkpoint: Path, program: Program) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._program = program
        self.commit = last_commit(checkpoint)
        """Which batch that is; None where there is none yet, and so no state."""
        self.unloaded: list[Unloaded] = []
        """Entities that `entities` came by so far and could not load."""

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """See `SavedState.entities`.

        Raises:
            RuntimeFailure: Spark could not read it.
        """
        if self.commit is None:
            return
        program = self._program
        names = [partition.name for partition in program.partitions]
        cache = EntityCache(names, codecs_of(program))
        levels, batch = program.levels.count, self.commit.batch
        found = read_state(self._session, self._checkpoint, batch, levels, cache)
        for name, entities, unloaded in found:
            self.unloaded += unloaded
            for key, entity in entities.items():
                yield name, key, entity
