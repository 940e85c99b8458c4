"""The state of an application while it does not run: read, added to, and divided anew."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from wallaroo.dataflow.buckets import Bucket, Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.state_records import unpacked_changes
from wallaroo.engine.realtime.checkpoint import (
    check_partitions,
    check_that_spark_has_all,
    has_begun,
    is_imported,
    place_of,
    published_after,
)
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.reports import Reports
from wallaroo.engine.realtime.settings import SETTINGS, local_master
from wallaroo.engine.realtime.state_copy import NotedState, noted
from wallaroo.engine.realtime.state_import import import_state
from wallaroo.engine.spark.checkpoint import partitions
from wallaroo.engine.spark.checkpoint.epochs import has_epoch, last_commit, last_epoch
from wallaroo.engine.spark.checkpoint.saved_state import CheckpointState
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.engine.stored import StateLayout
from wallaroo.model.timing import KeyTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoppedState:
    """The state of an application that does not run; a context manager.

    Args:
        layout: The state.
    """

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout
        self._opened = ExitStack()
        self._started: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._opened.close()

    def saved(self, program: Program) -> PublishedState:
        """The state as of the last published chunk."""
        return PublishedState(self._session, self._layout, program)

    def has_imported(self, name: str) -> bool:
        """Whether the import *name* is complete; Spark drops one that was interrupted.

        Raises:
            RuntimeFailure: The application was not stopped cleanly.
        """
        if is_imported(self._layout.checkpoint, name):
            return True
        check_partitions(self._layout)
        check_that_spark_has_all(self._layout)
        return False

    def import_rows(self, rows: Path, name: str) -> None:
        """Add what `write_rows` wrote, whole or not at all.

        A call after one that was interrupted finishes it.

        Args:
            rows: The file.
            name: Name of the import.

        Raises:
            RuntimeFailure: It failed.
        """
        import_state(self._session(), self._layout, rows, name)

    def _session(self) -> SparkSession:
        """Spark, which starts when it is needed."""
        if self._started is None:
            starts = session_for(self._layout.application, self._layout.partitions)
            self._started = self._opened.enter_context(starts)
        return self._started


def has_ended(layout: StateLayout) -> bool:
    """Whether the last epoch has ended, so that Spark has all that is published.

    One with another number of partitions belongs to a `repartition` that was interrupted.
    """
    checkpoint = layout.checkpoint
    if not has_epoch(checkpoint):
        return False
    last = last_epoch(checkpoint)
    if last.partitions != layout.partitions:
        return True
    return last.ended and not has_begun(checkpoint, place_of(checkpoint, last_commit(checkpoint)))


def repartition(layout: StateLayout, number: int, master: str, memory: str) -> None:
    """Divide the state into *number* partitions; does nothing if it already is.

    A call after one that was interrupted finishes it.

    Args:
        layout: The state; the application must not run.
        number: The new number of partitions.
        master: Spark master URL.
        memory: Spark's Java heap.

    Raises:
        RuntimeFailure: It failed, or the application was not stopped cleanly.
    """
    check_that_spark_has_all(layout)
    checkpoint = layout.checkpoint
    if last_commit(checkpoint) is not None and partitions.is_needed(checkpoint, number):
        with session_for("repartition", number, master, memory) as session:
            partitions.repartition(session, checkpoint, number)


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
        serializer = EntitySerializer.of(program)
        self._names = serializer.partitions
        self._later = serializer.read(records)
        self._later_migrated = serializer.migrated
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
        committed = CheckpointState(session(), layout.checkpoint, program)
        committed.commit = self.commit  # there may be another one by now
        return committed

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


@contextmanager
def session_for(
    name: str, number: int, master: str | None = None, memory: str = "1g"
) -> Iterator[SparkSession]:
    """A Spark for the state of an application that does not run.

    Args:
        name: What it is called.
        number: Partitions of the state.
        master: Spark master URL; None for one that the query itself can run on.
        memory: Its Java heap.
    """
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
        settings = SparkSettings(
            local_master(number) if master is None else master,
            number,
            Path(scratch, "spark"),
            memory,
            SETTINGS,
            (jar(),),
        )
        session = Launch(name, settings, Reports().spark_line).finish()
        try:
            yield session.session
        finally:
            session.stop()
