"""The state of an application that the real-time engine runs, while it does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.buckets import Bucket, Unloaded
from wallaroo.dataflow.entities import EntityCache
from wallaroo.dataflow.program import Program, codecs_of, versions_in
from wallaroo.dataflow.state_records import unpacked_changes
from wallaroo.engine.realtime.checkpoint import place_of, published_after
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.noted import NotedState, noted
from wallaroo.engine.realtime.settings import OPERATORS, SETTINGS, local_master
from wallaroo.engine.spark import engine
from wallaroo.engine.spark.checkpoint.saved_state import CheckpointState
from wallaroo.engine.stored import StateLayout
from wallaroo.model.timing import KeyTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stopped:
    """See `StoppedState`.

    Args:
        session: Starts Spark, if it is needed.
        layout: The state.
    """

    def __init__(self, session: Callable[[], SparkSession], layout: StateLayout) -> None:
        self._session, self._layout = session, layout

    def saved(self, program: Program) -> PublishedState:
        """See `StoppedState.saved`."""
        return PublishedState(self._session, self._layout, program)

    def import_rows(self, program: Program, rows: Path, name: str) -> None:  # noqa: ARG002
        """See `StoppedState.import_rows`."""
        from wallaroo.engine.realtime.state_import import import_state

        import_state(self._session(), self._layout, rows, name)


class PublishedState:
    """The state as of the last published chunk; see `SavedState`.

    It is what Spark has committed, and what was published after that.

    Args:
        session: Starts Spark, if the state is not noted beside the checkpoint.
        layout: The state.
        program: The application.

    Raises:
        RuntimeFailure: The outbox with what was published is not at hand.
        UsageError: The checkpoint is damaged.
    """

    def __init__(
        self, session: Callable[[], SparkSession], layout: StateLayout, program: Program
    ) -> None:
        self.commit, records = published_after(layout)
        self.unloaded: list[Unloaded] = []
        """Entities that `entities` has reached so far and could not load."""
        self._committed = self._read(session, layout, program)
        names = [part.name for part in program.partitions]
        cache = EntityCache(names, codecs_of(program), versions=versions_in(program))
        self._names = cache.partitions
        self._later = cache.read(records)
        self._later_migrated = cache.migrated
        self._changed = _keys(records)

    def _read(
        self, session: Callable[[], SparkSession], layout: StateLayout, program: Program
    ) -> CheckpointState | NotedState:
        """What Spark has committed."""
        if self.commit is not None:
            place = place_of(layout.checkpoint, self.commit)
            records = noted(layout.checkpoint, layout.partitions, place)
            if records is not None:
                return NotedState(records, program)
        committed = CheckpointState(session(), layout.checkpoint, program, operators=OPERATORS)
        committed.commit = self.commit  # there may be another one by now
        return committed

    def version_of(self, state: str) -> int:
        """See `SavedState.version_of`."""
        return self._committed.version_of(state)

    def migrated(self) -> Mapping[str, int]:
        """See `SavedState.migrated`."""
        committed = self._committed.migrated()
        return {
            name: committed.get(name, 0) + self._later_migrated.get(number, 0)
            for number, name in enumerate(self._names)
        }

    def time_of(self, state: str, key: Any) -> KeyTime | None:
        """See `SavedState.time_of`."""
        if (state, key) in self._changed:
            return self._later.times.get((list(self._names).index(state), key))
        return self._committed.time_of(state, key)

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """See `SavedState.entities`.

        Raises:
            RuntimeFailure: Spark failed to read the state.
        """
        for name, key, entity in self._committed.entities():
            if (name, key) not in self._changed:
                yield name, key, entity
        self.unloaded += [
            one for one in self._committed.unloaded if (one.state, one.key) not in self._changed
        ]
        self.unloaded += self._later.unloaded.values()
        yield from _entities(self._names, self._later)


def _keys(records: list[bytes]) -> set[tuple[str, Any]]:
    """State and key of each entity that *records* tell something of."""
    found: set[tuple[str, Any]] = set()
    for record in records:
        for name, changes in unpacked_changes(record).items():
            found.update((name, key) for key in changes.all_keys())
    return found


def _entities(names: Any, bucket: Bucket) -> Iterator[tuple[str, Any, Any]]:
    for name, entities in zip(names, bucket.entities, strict=True):
        for key, entity in entities.items():
            yield name, key, entity


def session_for(
    name: str, partitions: int, master: str | None = None, memory: str = "1g"
) -> AbstractContextManager[SparkSession]:
    """A Spark for the state of an application that does not run.

    Args:
        name: What it is called.
        partitions: Partitions of the state.
        master: Spark master URL; None for one that the query itself can run on.
        memory: Its Java heap.
    """
    url = local_master(partitions) if master is None else master
    return engine.session_for(name, url, partitions, memory, SETTINGS, (jar(),))
