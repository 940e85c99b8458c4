"""A bucket in the memory of a process, and the changes that a chunk makes to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wallaroo.dataflow.open_windows import OpenWindows
from wallaroo.dataflow.saved_entities import Saved
from wallaroo.dataflow.spilled_entities import SpilledEntities
from wallaroo.dataflow.timers import Timers
from wallaroo.model.migrations import FIRST
from wallaroo.model.timing import KeyTime


@dataclass(frozen=True)
class Unloaded:
    """An entity that could not be loaded, in its saved form, for later code that can load it."""

    state: str
    key: Any
    saved: Saved
    """The saved data, possibly with other entities; with a custom codec, the codec's result."""
    error: str
    version: int = FIRST
    """Version of its class when it was saved."""

    def __str__(self) -> str:
        return (
            f"state {self.state!r}, key {self.key!r:.100}: the entity, of class "
            f"{self.saved.class_name()}, cannot be loaded: {self.error}; its saved data is kept"
        )


Where = tuple[int, Any]
"""Partition number and key."""
Times = Mapping[Where, KeyTime | None]
"""The time of keys; None where it is forgotten."""
Kept = tuple[Any, ...]
"""The fields of a `Saved`, the keys of those of its entities that could not be loaded and, unless
it is the first, the version of their class."""


class Unloadable(Exception):
    """The entity of a message's key cannot be loaded."""


@dataclass
class Bucket:
    """The entities of one bucket in this process."""

    entities: list[Any]
    """Entities by partition number and key: dictionaries, or `SpilledEntities`."""
    timers: Timers | None = None
    """When its windows close and its timers are due; None if not determined yet."""
    expiries: Timers | None = None
    """When its entities without timers expire, which has no output; None as above."""
    idle: Timers | None = None
    """When its windows can be forgotten, which has no effect on messages; None as above."""
    open_windows: OpenWindows | None = None
    """Figures of its windows; None if not determined yet."""
    times: dict[Where, KeyTime] = field(default_factory=dict)
    """The time of each key, with its timers, where the state has any."""
    unloaded: dict[tuple[int, Any], Unloaded] = field(default_factory=dict)
    """Entities that could not be loaded, by partition number and key."""
    dead_lettered: dict[Where, int] = field(default_factory=dict)
    """For each of these entities, the time up to which its due timers are dead-lettered already."""
    others: dict[str, set[Any]] = field(default_factory=dict)
    """Keys of entities by state, for states that the application does not have, if all was read."""

    def peek(self, number: int, key: Any, default: Any) -> Any:
        """The entity of *key*, which does not count as used by that."""
        entities = self.entities[number]
        if isinstance(entities, SpilledEntities):
            return entities.read((key,)).get(key, default)
        return entities.get(key, default)

    def prefetch(self, wanted: Iterable[tuple[int, Any]]) -> None:
        """Bring the entities of keys, with their partition numbers, into memory at once."""
        keys: dict[int, list[Any]] = {}
        for number, key in wanted:
            keys.setdefault(number, []).append(key)
        for number, of in keys.items():
            entities = self.entities[number]
            if isinstance(entities, SpilledEntities):
                entities.prefetch(of)

    @property
    def spills(self) -> bool:
        """Whether entities may be elsewhere than in memory."""
        return any(isinstance(one, SpilledEntities) for one in self.entities)

    def times_of(self, number: int) -> dict[Any, KeyTime]:
        """The times of a partition by key."""
        return {key: time for (partition, key), time in self.times.items() if partition == number}


@dataclass(frozen=True)
class Changes:
    """The changes of a chunk to the entities of a bucket."""

    changed: list[dict[Any, Any]]
    """Changed entities, by partition number and key."""
    forgotten: list[set[Any]]
    """Keys whose entities were deleted, by partition number; some may be in `changed` again."""
    times: dict[Where, KeyTime | None] = field(default_factory=dict)
    """Changed times of keys. An entity of `changed` whose key is not here has none."""

    @classmethod
    def none(cls, partitions: int) -> Changes:
        """Return empty changes."""
        return cls([{} for _ in range(partitions)], [set() for _ in range(partitions)])

    def __bool__(self) -> bool:
        return any(self.changed) or any(self.forgotten) or bool(self.times)
