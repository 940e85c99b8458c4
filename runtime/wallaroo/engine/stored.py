"""The state that the engine keeps, for what reads and maintains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wallaroo.dataflow.buckets import Unloaded
from wallaroo.model.timing import KeyTime

Published = Callable[[str, int], list[bytes] | None]
"""Returns what the outbox has published of a query after a number, each as the record of a change.

None if the outbox is not there, or does not know what the query had published up to the number."""


@dataclass(frozen=True)
class StateLayout:
    """Where the engine keeps the state of an application, and how it is divided."""

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
    """The end of an epoch."""

    epoch: int
    """Number of the epoch."""
    at: float
    """Wall clock, in seconds since the Unix epoch."""


class LastEpoch(NamedTuple):
    """The last epoch that has begun."""

    number: int
    """Number of the epoch."""
    ended: bool
    """Whether it is committed."""
    partitions: int
    """Partitions of the state while it ran."""


class SavedState(Protocol):
    """The state as of a published chunk."""

    commit: Commit | None
    """The last committed epoch; None if there is none yet."""
    unloaded: list[Unloaded]
    """Entities that `entities` could not load so far."""

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """State, key and entity of each entity.

        Raises:
            RuntimeFailure: They cannot be read.
        """

    def migrated(self) -> Mapping[str, int]:
        """Numbers of the entities that `entities` has migrated so far, by state."""

    def time_of(self, state: str, key: Any) -> KeyTime | None:
        """The time of the key that `entities` has just yielded; None if the state keeps none."""
