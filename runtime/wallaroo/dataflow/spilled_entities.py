"""Entities of a state of which those used recently are in memory, and all others in a local store.

An entity is in one of the two places. It comes into memory when its key is used, as another object
with the same contents, and may leave only between two chunks: while one runs, a key has one object.
Then its record is removed from the store; until then the record is void, because while a chunk runs
the store does not change. What leaves is saved as it is, whether or not a function has said that it
changed: as in memory, nothing is lost before the process ends.

Those that leave are found by second chance: a queue of the keys in memory, of which the first
leaves, unless it was used since it was queued: then it is queued again.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    MutableMapping,
    Sequence,
    ValuesView,
)
from itertools import repeat
from operator import is_
from random import Random
from typing import Any, NamedTuple

from wallaroo.dataflow.stored_records import LocalStoreFailed, Place, Record, RecordStore
from wallaroo.system.object_sizes import size_of
from wallaroo.user_code.exceptions import describe_error, pass_interrupt

_MISSING = object()
_KEYS = 2_048
"""Keys in a piece of those in memory."""
_AT_ONCE = 500
"""Keys that are looked for in the store at once: so many records may be in memory besides."""
_SAMPLES = 256
"""Number of recent samples that the mean size is of."""
_SAMPLED = 64
"""One in so many uses adds a sample: it costs some microseconds."""
_MOST_AT_ONCE = 16
"""Samples between two chunks, at most."""
_BATCH_BYTES = 8 * 1024**2
"""Bytes that leave at once, about."""
_MOST_BYTES = 1024**3
"""A larger entity stays in memory."""
_MOST_FAILED = 100
"""Entities that cannot be saved after which no others are tried until the next chunk."""
_FRAME_BYTES = 160
"""What memory takes for a key besides the two objects: dictionary, queue, and keys in use."""


class Saving(NamedTuple):
    """How the entities of a state are saved."""

    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]
    bucket: Callable[[Any], int]
    """From a key to its bucket."""


class SpilledEntities(MutableMapping[Any, Any]):
    """Entities by key, with the semantics of a dictionary.

    `get`, `[]` and `in` bring an entity into memory; iteration and `read` do not, and what they
    return of the store are copies.

    Args:
        store: The others.
        saving: How they are saved.
    """

    def __init__(self, store: RecordStore, saving: Saving) -> None:
        self._store, self._saving = store, saving
        self._memory: dict[Any, Any] = {}
        self._void: dict[int, Place] = {}
        """The records of the store that do not count any more, by where they are."""
        self._absent: set[Any] = set()
        """Keys that were looked for in the store in vain, since the last chunk."""
        self._queue: deque[Any] = deque()
        """The keys in memory, and perhaps some that have gone; the next to leave first."""
        self._used: set[Any] = set()
        """Keys that were used since they were queued."""
        self._brought: list[list[Any]] = []
        """Keys that were brought while `key_pieces` went through them, which might miss them."""
        self._uses = 0
        self._random = Random(0)
        self._sizes: deque[int] = deque(maxlen=_SAMPLES)
        """Samples of the bytes of a key and its entity."""
        self.may_be_cyclic = False
        """Whether there are entities that reference counting may not free."""

    @property
    def in_memory(self) -> int:
        """Number of entities in memory."""
        return len(self._memory)

    @property
    def memory_bytes(self) -> int:
        """The memory that they take, as estimated."""
        return len(self._memory) * self.mean_bytes

    @property
    def mean_bytes(self) -> int:
        """The memory that one of them takes, as estimated."""
        return _FRAME_BYTES + (sum(self._sizes) // len(self._sizes) if self._sizes else 0)

    def __len__(self) -> int:
        return len(self._memory) + self._store.count - len(self._void)

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The entity of *key*."""
        if key not in self._memory and not self._bring((key,)):
            return default
        self._uses += 1
        self._used.add(key)
        return self._memory[key]

    def __contains__(self, key: object) -> bool:
        return key in self._memory or self._bring((key,)) > 0

    def __setitem__(self, key: Any, entity: Any) -> None:
        if key not in self._memory and not self._bring((key,)):
            self._queue.append(key)
        self._uses += 1
        self._used.add(key)
        self._memory[key] = entity

    def __delitem__(self, key: Any) -> None:
        if key not in self._memory:
            self._bring((key,))
        del self._memory[key]

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs(loads=False))

    def __reversed__(self) -> Iterator[Any]:
        """The keys, of those in memory the newest first."""
        void = set(self._void)
        yield from reversed(list(self._memory))
        yield from (key for key, _ in self._stored(void, loads=False))

    def items(self) -> ItemsView[Any, Any]:
        """Keys and entities."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """The entities."""
        return _Values(self)

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set many at once."""
        new = dict(other, **more)
        self.prefetch(new)
        self._queue.extend(key for key in new if key not in self._memory)
        self._uses += len(new)
        self._used.update(new)
        self._memory.update(new)

    def get_all(self, keys: Sequence[Any], default: Any) -> list[Any]:
        """The entities of *keys*, one after the other; it is fast."""
        memory = self._memory
        found = list(map(memory.get, keys, repeat(_MISSING)))
        if any(map(is_, found, repeat(_MISSING))):
            self.prefetch(keys)
            found = list(map(memory.get, keys, repeat(default)))
        self._uses += len(keys)
        self._used.update(keys)
        return found

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Bring the entities of *keys* into memory, where there are any."""
        memory = self._memory
        self._bring([key for key in dict.fromkeys(keys) if key not in memory])

    def read(self, keys: Collection[Any]) -> dict[Any, Any]:
        """The entities of *keys*, where there are any, without bringing them into memory."""
        found = {key: self._memory[key] for key in keys if key in self._memory}
        others = [key for key in keys if key not in found]
        found.update((key, entity) for _, key, entity in self._search(others))
        return found

    def of_buckets(self, buckets: Collection[int]) -> Iterator[tuple[int, dict[Any, Any]]]:
        """The entities of each of *buckets*, as `read` returns them."""
        in_memory: dict[int, dict[Any, Any]] = {bucket: {} for bucket in buckets}
        for key, entity in self._memory.items():
            if (found := in_memory.get(self._saving.bucket(key))) is not None:
                found[key] = entity
        for bucket, records in self._store.of_buckets(buckets):
            found = in_memory[bucket]
            for record in records:
                if self._counts(record):
                    found[pickle.loads(record.key)] = self._load(record)
            yield bucket, found
            in_memory[bucket] = {}

    def key_pieces(self) -> Iterator[list[Any]]:
        """All keys of now, some at a time, some perhaps twice; chunks may run in between."""
        keys, brought = list(self._memory), list[Any]()
        self._brought.append(brought)
        try:
            for start in range(0, len(keys), _KEYS):
                yield keys[start : start + _KEYS]
            for records in self._store.pieces():
                stored = [pickle.loads(one.key) for one in records if self._counts(one)]
                stored += brought
                brought.clear()
                yield stored
            yield brought
        finally:
            self._brought.remove(brought)

    def settle(self) -> None:
        """Let the store have what the last chunk has changed, and estimate sizes."""
        self._absent.clear()
        if self._void:
            self._store.remove(self._void.values())
            self._void.clear()
        self._store.tidy()
        if len(self._queue) > 2 * len(self._memory) + _KEYS:
            self._queue = deque(self._memory)
        if len(self._used) > 2 * len(self._memory) + _KEYS:
            self._used.intersection_update(self._memory)
        samples, self._uses = divmod(self._uses, _SAMPLED)
        if not self._sizes:
            samples += 1
        for _ in range(min(samples, _MOST_AT_ONCE) if self._queue else 0):
            ends = min(len(self._queue), 2 * _KEYS)  # what is in its middle takes long to reach
            key = self._queue[self._random.randrange(ends) - ends // 2]
            if (entity := self._memory.get(key, _MISSING)) is not _MISSING:
                found = size_of((key, entity))
                self._sizes.append(found.bytes)
                self.may_be_cyclic = self.may_be_cyclic or found.may_be_cyclic

    def evict(self, most: int) -> int:
        """Move up to *most* entities to the store, after `settle`; returns how many.

        Those that cannot be saved stay.
        """
        memory, used, queue = self._memory, self._used, self._queue
        leaving: dict[Any, Record] = {}
        left = size = failed = 0
        for _ in range(2 * len(queue)):
            if left + len(leaving) == most or not queue or failed > _MOST_FAILED:
                break
            key = queue.popleft()
            if key in used:
                used.discard(key)
                if key in memory:
                    queue.append(key)
            elif key in memory and key not in leaving:
                if (record := self._record(key, memory[key])) is None:
                    queue.append(key)
                    failed += 1
                    continue
                leaving[key] = record
                size += len(record.entity)
                if size > _BATCH_BYTES:
                    left += self._let_leave(leaving)
                    size = 0
        return left + self._let_leave(leaving)

    def _let_leave(self, leaving: dict[Any, Record]) -> int:
        """Move the entities of *leaving*, which is then empty, to the store; returns how many."""
        self._store.write(list(leaving.values()))
        for key in leaving:
            del self._memory[key]
        count = len(leaving)
        leaving.clear()
        return count

    def _record(self, key: Any, entity: Any) -> Record | None:
        try:
            saved_key, saved = pickle.dumps(key, protocol=5), self._saving.dump(entity)
        except BaseException as error:
            pass_interrupt(error)
            return None
        if len(saved_key) + len(saved) > _MOST_BYTES:
            return None
        return Record(hash(key), self._saving.bucket(key), saved_key, saved)

    def _bring(self, keys: Sequence[Any]) -> int:
        """Bring the entities of *keys* into memory, where they are not; returns how many came."""
        if not self._store.count:
            return 0
        absent = self._absent
        sought = [key for key in keys if key not in absent] if absent else keys
        brought = 0
        for record, key, entity in self._search(sought):
            self._void[record.place.at] = record.place
            self._memory[key] = entity
            self._queue.append(key)
            for others in self._brought:
                others.append(key)
            brought += 1
        if brought < len(sought):
            absent.update(key for key in sought if key not in self._memory)
        return brought

    def _search(self, keys: Sequence[Any]) -> Iterator[tuple[Record, Any, Any]]:
        """The records of *keys* in the store, each with its key and its entity."""
        if not keys or not self._store.count:
            return
        by_hash: dict[int, list[Any]] = {}
        for key in keys:
            by_hash.setdefault(hash(key), []).append(key)
        hashes = list(by_hash)
        for start in range(0, len(hashes), _AT_ONCE):
            for record in self._store.find(hashes[start : start + _AT_ONCE], self._void):
                key = pickle.loads(record.key)
                if any(key == sought for sought in by_hash[record.hash]):
                    yield record, key, self._load(record)

    def _counts(self, record: Record) -> bool:
        """Whether a record of the store is not void."""
        return record.place.at not in self._void

    def _stored(self, void: set[int], *, loads: bool) -> Iterator[tuple[Any, Any]]:
        """Keys and entities that were in the store when only the records at *void* were void."""
        for records in self._store.pieces():
            for record in records:
                if record.place.at in void:
                    continue
                key = pickle.loads(record.key)
                if self._counts(record):
                    yield key, self._load(record) if loads else None
                elif key in self._memory:  # it came meanwhile, and was not deleted
                    yield key, self._memory[key]

    def pairs(self, *, loads: bool = True) -> Iterator[tuple[Any, Any]]:
        """Keys and entities; of those in the store, these only if it *loads* them."""
        void = set(self._void)
        yield from list(self._memory.items())
        yield from self._stored(void, loads=loads)

    def _load(self, record: Record) -> Any:
        try:
            return self._saving.load(record.entity)
        except BaseException as error:
            pass_interrupt(error)
            msg = (
                "an entity that was loaded before cannot be loaded again, and the process starts "
                f"again with what the log and the checkpoint have: {describe_error(error)}"
            )
            raise LocalStoreFailed(msg) from error


class _Items(ItemsView[Any, Any]):
    _mapping: SpilledEntities

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.pairs()


class _Values(ValuesView[Any]):
    _mapping: SpilledEntities

    def __iter__(self) -> Iterator[Any]:
        return (entity for _, entity in self._mapping.pairs())
