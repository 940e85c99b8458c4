"""The entities in a checkpoint, as of its last committed epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.buckets import Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.engine.spark.checkpoint.epochs import last_commit
from wallaroo.engine.spark.checkpoint.reader import read_state
from wallaroo.model.timing import KeyTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointState:
    """The state in a checkpoint as of its currently last committed epoch.

    Args:
        session: The Spark session; may be that of the query.
        checkpoint: Directory of the query's checkpoint.
        program: The program of the query.
    """

    def __init__(self, session: SparkSession, checkpoint: Path, program: Program) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._program = program
        self.commit = last_commit(checkpoint)
        """The epoch; None if there is no committed one, and so no state."""
        self.unloaded: list[Unloaded] = []
        """Entities that `entities` has reached so far and could not load."""

        self._migrated: Mapping[str, int] = {}
        self._times: Mapping[Any, KeyTime] = {}
        """Those of the entities that `entities` yields."""

    def migrated(self) -> Mapping[str, int]:
        """See `SavedState.migrated`."""
        return self._migrated

    def time_of(self, state: str, key: Any) -> KeyTime | None:  # noqa: ARG002
        """See `SavedState.time_of`."""
        return self._times.get(key)

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """See `SavedState.entities`.

        Raises:
            RuntimeFailure: Spark failed to read the state.
        """
        if self.commit is None:
            return
        serializer = EntitySerializer.of(self._program)
        names = serializer.partitions
        states = read_state(self._session, self._checkpoint, self.commit.epoch, serializer)
        for name, entities, unloaded, times in states:
            self.unloaded += unloaded
            self._times = times
            self._migrated = {names[n]: count for n, count in serializer.migrated.items()}
            for key, entity in entities.items():
                yield name, key, entity
