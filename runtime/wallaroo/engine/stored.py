"""The state that the engine keeps, for what reads and maintains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.dataflow.buckets import Bucket, Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.state_records import unpacked_changes
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


class Committed(NamedTuple):
    """The state as of the end of a committed epoch."""

    run: str
    """The query that has committed it."""
    offset: int
    """Offset of the first message that is not in it."""
    records: Iterable[bytes]
    """Records of all entities; can be read once."""
    opening: str | None = None
    """Opening of the journal under which the epoch ended; None if that is not known."""


class LastEpoch(NamedTuple):
    """The last epoch that has begun."""

    number: int
    """Number of the epoch."""
    ended: bool
    """Whether it is committed."""
    partitions: int
    """Partitions of the state while it ran."""


class SavedState:
    """The state as of a published chunk.

    Args:
        serializer: Has read, or reads, *buckets*.
        buckets: What Spark has committed.
        commit: The last committed epoch; None if there is none yet.
        later: Records of what was published after it.
    """

    def __init__(
        self,
        serializer: EntitySerializer,
        buckets: Iterable[Bucket],
        commit: Commit | None,
        later: Sequence[bytes] = (),
    ) -> None:
        self.commit = commit
        """The last committed epoch; None if there is none yet."""
        self.unloaded: list[Unloaded] = []
        """Entities that `entities` has reached so far and could not load."""
        self.others = Counter[str]()
        """Likewise, numbers of entities by state, for states that the application does not have."""
        self._serializer, self._names = serializer, list(serializer.partitions)
        self._later = self._bucket = serializer.read(later)
        self._buckets = buckets
        self._changed = {
            (name, key)
            for record in later
            for name, changes in unpacked_changes(record).items()
            for key in changes.all_keys()
        }

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        """State, key and entity of each entity.

        Raises:
            RuntimeFailure: They cannot be read.
        """
        for bucket in self._buckets:
            yield from self._entities(bucket, self._changed)
        yield from self._entities(self._later, set())

    def _entities(
        self, bucket: Bucket, changed: set[tuple[str, Any]]
    ) -> Iterator[tuple[str, Any, Any]]:
        """Those of *bucket*, without those that were *changed* later."""
        self._bucket = bucket
        unloaded = bucket.unloaded.values()
        self.unloaded += [one for one in unloaded if (one.state, one.key) not in changed]
        for name, keys in bucket.others.items():
            self.others[name] += sum((name, key) not in changed for key in keys)
        for name, entities in zip(self._names, bucket.entities, strict=True):
            for key, entity in entities.items():
                if (name, key) not in changed:
                    yield name, key, entity

    def migrated(self) -> Mapping[str, int]:
        """Numbers of the entities that `entities` has migrated so far, by state."""
        return {self._names[number]: count for number, count in self._serializer.migrated.items()}

    def time_of(self, state: str, key: Any) -> KeyTime | None:
        """The time of the key that `entities` has just yielded; None if the state keeps none."""
        return self._bucket.times.get((self._names.index(state), key))
