"""Records of a bucket's log: which entities of each state a chunk or epoch has changed.

They hold plain tuples, because a record must not depend on where a class of this package is.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.dataflow.bucket_logs import content_of, sealed_record
from wallaroo.dataflow.buckets import Kept, Times, Unloaded, Where
from wallaroo.dataflow.saved_entities import Saved
from wallaroo.model.migrations import FIRST


class StateChanges(NamedTuple):
    """What a record says of one state."""

    changed: Saved
    """Changed entities."""
    forgotten: list[Any]
    """Keys of deleted entities."""
    kept: Sequence[Kept] = ()
    """Entities that could not be loaded."""
    times: Mapping[Any, tuple[Any, ...] | None] = {}
    """Changed times by key, as `KeyTime.saved` returns them; None where one is forgotten."""
    version: int = FIRST
    """Version of the class of the changed entities."""

    def all_keys(self) -> set[Any]:
        """The keys of all entities that it says something of."""
        return {*self.changed.keys, *self.forgotten, *self.times}.union(
            *(keys for _, keys, *_ in self.kept)
        )


def packed_changes(changes: Mapping[str, StateChanges]) -> bytes:
    """The record of *changes*, by the name of the state.

    Example:
        >>> changes = {"totals": StateChanges(Saved.of({"a": 1}), ["b"], [], {})}
        >>> unpacked_changes(packed_changes(changes))["totals"].all_keys() == {"a", "b"}
        True
    """
    packed = {name: (tuple(changed), *rest) for name, (changed, *rest) in changes.items()}
    return sealed_record(pickle.dumps(packed, protocol=5))


def unpacked_changes(record: bytes) -> dict[str, StateChanges]:
    """What a *record* says, by the name of the state.

    Raises:
        DamagedFile: It is not as it was written.
    """
    content: dict[str, tuple[Any, ...]] = pickle.loads(content_of(record))
    return {
        name: StateChanges(Saved(*changed), *rest) for name, (changed, *rest) in content.items()
    }


def times_of(number: int, times: Times) -> dict[Any, tuple[Any, ...] | None]:
    """The *times* of the state with this number, in the form of a record."""
    return {
        key: None if time is None else time.saved()
        for (partition, key), time in times.items()
        if partition == number
    }


def kept_of(number: int, unloaded: Mapping[Where, Unloaded]) -> list[Kept]:
    """The *unloaded* entities of the state with this number, grouped by their saved data."""
    return grouped(
        (key, one.saved, one.version)
        for (partition, key), one in unloaded.items()
        if partition == number
    )


def grouped(entities: Iterable[tuple[Any, Saved, int]]) -> list[Kept]:
    """Entities by their saved data: of each its key, what it is saved in, and its version."""
    groups: dict[int, Kept] = {}
    for key, content, version in entities:
        more = () if version == FIRST else (version,)
        groups.setdefault(id(content), (tuple(content), set(), *more))[1].add(key)
    return list(groups.values())
