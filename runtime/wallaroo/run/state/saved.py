"""State entities as of the last committed batch, and how they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.entities import EntityCache, Unloaded
from wallaroo.dataflow.program import Program
from wallaroo.engine.microbatch.job import codecs_of
from wallaroo.errors import RuntimeFailure
from wallaroo.run.state.json_codec import to_plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SavedState:
    """The state in a checkpoint as of the last batch that is committed now.

    Args:
        session: Reads it; may be the one whose query writes it.
        checkpoint: Directory of the query's checkpoint.
        program: What the query runs.
    """

    def __init__(self, session: SparkSession, checkpoint: Path, program: Program) -> None:
        from wallaroo.engine.spark.checkpoint.reader import last_commit

        self._session = session
        self._checkpoint = checkpoint
        self._program = program
        self.commit = last_commit(checkpoint)
        """Which batch that is; None where there is none yet, and so no state."""
        self.unloaded: list[Unloaded] = []
        """Entities that `entities` came by so far and could not load."""

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """State partition, key and entity of each entity.

        Raises:
            RuntimeFailure: Spark could not read it.
        """
        from wallaroo.engine.spark.checkpoint.reader import read_state

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

    def of_key(self, text: str) -> Iterator[dict[str, Any]]:
        """The entities whose key is written as *text*, in every state partition; as `told`.

        Raises:
            RuntimeFailure: Spark could not read it, or one of them cannot be loaded.
        """
        for name, key, entity in self.entities():
            if text in {str(key), repr(key)}:
                yield told(name, key, entity)
        for one in self.unloaded:
            if text in {str(one.key), repr(one.key)}:
                raise RuntimeFailure(str(one))


def told(state: str, key: Any, entity: Any) -> dict[str, Any]:
    """An entity as plain JSON values: `state`, `key` and `entity`."""
    return {"state": state, "key": to_plain(key), "entity": to_plain(entity)}
