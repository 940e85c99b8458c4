"""The interface of the state that an engine keeps, for what reads and maintains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wallaroo.dataflow.buckets import Unloaded
from wallaroo.dataflow.program import Program
from wallaroo.model.timing import KeyTime

Published = Callable[[str, int], list[bytes] | None]
"""Returns what the outbox has published of a query after a number, each as the record of a change.

None if the outbox is not there, or does not know what the query had published up to the number."""


@dataclass(frozen=True)
class StateLayout:
    """Where an engine keeps the state of an application, and how it is divided."""

    application: str
    """Name of the application."""
    partitions: int
    """Partitions of the state: the upper bound of parallelism."""
    buckets: int
    """Buckets that keys are spread over."""
    checkpoint: Path
    """The engine's own directory."""
    published: Published | None = None
    """Knows changes of state that may not be in the directory yet; None if nothing does."""


class Commit(NamedTuple):
    """The end of a batch."""

    batch: int
    """Number of the batch."""
    at: float
    """Wall clock, in seconds since the epoch."""


class LastBatch(NamedTuple):
    """The last batch that was planned."""

    number: int
    """Number of the batch."""
    ended: bool
    """Whether it is committed, and all that is published with it."""
    partitions: int
    """Partitions of the state while it ran."""


class SavedState(Protocol):
    """The state as of a committed batch."""

    commit: Commit | None
    """Which batch that is; None if there is none yet, and so no state."""
    unloaded: list[Unloaded]
    """Entities that `entities` could not load so far."""

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """State, key and entity of each entity.

        Raises:
            RuntimeFailure: They cannot be read.
        """

    def version_of(self, state: str) -> int:
        """The version of the class of the entities of *state*, as `entities` yields them."""

    def migrated(self) -> Mapping[str, int]:
        """Numbers of the entities that `entities` has migrated so far, by state."""

    def time_of(self, state: str, key: Any) -> KeyTime | None:
        """The time of the key that `entities` has just yielded; None if the state keeps none."""


class StoppedState(Protocol):
    """The state of an application that does not run."""

    def saved(self, program: Program) -> SavedState:
        """The state as of the last committed batch."""

    def import_rows(self, program: Program, rows: Path, name: str) -> None:
        """Add what `Engine.write_rows` wrote, whole or not at all.

        A call after one that was interrupted finishes it.

        Args:
            program: The application whose state it is.
            rows: The file.
            name: Name of the import.

        Raises:
            RuntimeFailure: It failed.
        """
