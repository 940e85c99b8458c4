"""The state of an application while it does not run: read, added to, and divided anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.checkpoint import (
    check_partitions,
    check_that_spark_has_all,
    has_begun,
    is_imported,
    place_of,
    published_after,
)
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.settings import SETTINGS, local_master
from wallaroo.engine.realtime.state_copy import noted
from wallaroo.engine.realtime.state_import import import_state
from wallaroo.engine.spark.checkpoint import partitions
from wallaroo.engine.spark.checkpoint.epochs import has_epoch, last_commit, last_epoch, run_of
from wallaroo.engine.spark.checkpoint.reader import read_logs
from wallaroo.engine.spark.s3 import jars_for, settings_for
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.engine.stored import Commit, Committed, SavedState, StateLayout

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

    def saved(self, program: Program, *, published: bool = True) -> SavedState:
        """The state as of the last published chunk.

        It is what Spark has committed, and what was published after that.

        Args:
            program: The application.
            published: Whether to add what was published later.

        Raises:
            RuntimeFailure: The outbox with what was published is not at hand.
            UsageError: The checkpoint is damaged.
        """
        checkpoint = self._layout.checkpoint
        if published:
            commit, later = published_after(self._layout)
        else:
            commit, later = last_commit(checkpoint), []
        serializer = EntitySerializer.of(program)
        logs = () if commit is None else self._logs(commit)
        return SavedState(serializer, map(serializer.read, logs), commit, later)

    def committed(self) -> Committed | None:
        """The state as of the last committed epoch; None if there is none.

        The application may be running. What it has published since is not in it.

        Raises:
            UsageError: The checkpoint is damaged.
        """
        checkpoint = self._layout.checkpoint
        if (commit := last_commit(checkpoint)) is None:
            return None
        place, logs = place_of(checkpoint, commit), self._logs(commit)
        return Committed(run_of(checkpoint), place.offset, chain.from_iterable(logs), place.opening)

    def _logs(self, commit: Commit) -> Iterable[Iterable[bytes]]:
        """The records of the entities as of *commit*, bucket by bucket, or of all together."""
        checkpoint = self._layout.checkpoint
        records = noted(checkpoint, self._layout.partitions, place_of(checkpoint, commit))
        if records is not None:
            return [records]
        return read_logs(self._session(), checkpoint, commit.epoch)  # only now is Spark needed

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
            layout = self._layout
            starts = session_for(layout.application, layout.partitions, state=layout.checkpoint)
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


@contextmanager
def session_for(
    name: str,
    number: int,
    master: str | None = None,
    memory: str = "1g",
    state: Path | None = None,
) -> Iterator[SparkSession]:
    """A Spark for the state of an application that does not run.

    Args:
        name: What it is called.
        number: Partitions of the state.
        master: Spark master URL; None for one that the query itself can run on.
        memory: Its Java heap.
        state: Where the state is; None for a directory.
    """
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
        settings = SparkSettings(
            local_master(number) if master is None else master,
            number,
            Path(scratch, "spark"),
            memory,
            {**SETTINGS, **settings_for(state, Path(scratch))},
            (jar(), *jars_for(state)),
        )
        session = Launch(name, settings).finish()
        try:
            yield session.session
        finally:
            session.stop()
