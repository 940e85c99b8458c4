"""States that the application does not have, such as those of removed steps, as they were saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container
from typing import Any

from wallaroo.dataflow.saved_entities import Saved
from wallaroo.dataflow.state_records import StateChanges, grouped
from wallaroo.model.migrations import FIRST


class _State:
    """One of them, in one bucket."""

    def __init__(self) -> None:
        self.saved: dict[Any, tuple[Saved, int]] = {}
        """By key: what its entity is in, and the version of its class."""
        self.times: dict[Any, tuple[Any, ...] | None] = {}
        self.changed: set[Any] = set()
        """Keys of which the log of the bucket lacks something."""

    def take(self, changes: StateChanges, among: Container[Any] | None = None) -> None:
        """Take in *changes*, if only some, of the keys *among* them."""
        for key in changes.forgotten:
            if among is None or key in among:
                self.saved.pop(key, None)
                self.times.pop(key, None)
        parts = [(changes.changed, changes.changed.keys, changes.version)]
        for content, kept, *more in changes.kept:
            parts.append((Saved(*content), list(kept), more[0] if more else FIRST))
        for content, keys, version in parts:
            chosen = [key for key in keys if among is None or key in among]
            self.saved.update(dict.fromkeys(chosen, (content, version)))
        times = changes.times.items()
        self.times.update((key, at) for key, at in times if among is None or key in among)

    def changes(self, keys: Collection[Any]) -> StateChanges:
        """What a record is to say of *keys*."""
        forgotten = [key for key in keys if key not in self.saved]
        kept = grouped((key, *self.saved[key]) for key in keys if key in self.saved)
        times = {key: self.times[key] for key in keys if key in self.times}
        return StateChanges(Saved.of({}), forgotten, kept, times)


class OtherStates:
    """Those of a partition; a later application may have them again.

    Args:
        bucket_of: From a key to its bucket.
    """

    def __init__(self, bucket_of: Callable[[Any], int]) -> None:
        self._bucket_of = bucket_of
        self._states: dict[int, dict[str, _State]] = defaultdict(lambda: defaultdict(_State))

    def read(self, bucket: int, name: str, changes: StateChanges) -> None:
        """Take in what the log of *bucket* says of the state *name*."""
        self._states[bucket][name].take(changes)

    def note(self, name: str, changes: StateChanges) -> None:
        """Take in what was published, and is not in the log of a bucket."""
        by_bucket: dict[int, set[Any]] = defaultdict(set)
        for key in changes.all_keys():
            by_bucket[self._bucket_of(key)].add(key)
        for bucket, keys in by_bucket.items():
            state = self._states[bucket][name]
            state.take(changes, keys)
            state.changed |= keys

    @property
    def changed(self) -> set[int]:
        """The buckets whose logs lack something."""
        found = self._states.items()
        return {bucket for bucket, of in found if any(state.changed for state in of.values())}

    def lacking(self, bucket: int) -> dict[str, StateChanges]:
        """What the log of *bucket* lacks, by the name of the state."""
        found = self._states[bucket].items() if bucket in self._states else ()
        return {name: one.changes(one.changed) for name, one in found if one.changed}

    def all_of(self, bucket: int | None = None) -> dict[str, StateChanges]:
        """All that is known, or only that in *bucket*, likewise."""
        all_: dict[str, _State] = defaultdict(_State)
        for number, states in self._states.items():
            for name, one in states.items() if bucket in {None, number} else ():
                all_[name].saved.update(one.saved)
                all_[name].times.update(one.times)
        found = all_.items()
        return {name: one.changes({*one.saved, *one.times}) for name, one in found if one.saved}

    def __len__(self) -> int:
        """Number of entities."""
        return sum(len(one.saved) for of in self._states.values() for one in of.values())

    def saved(self) -> None:
        """Note that the logs lack nothing any more."""
        for of in self._states.values():
            for state in of.values():
                state.changed.clear()
