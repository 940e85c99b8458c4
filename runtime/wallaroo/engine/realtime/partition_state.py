"""The entities of one partition: in memory, in the logs of its buckets, in published changes.

In memory a partition is one bucket. A chunk's changes are published with its outputs; at the end of
an epoch the changes of all its chunks go to the logs of the buckets in Spark's state store, in the
format of a bucket's log, and the published ones are not needed any more. They are packed before a
chunk of the next epoch runs, and Spark takes them over meanwhile. A log that has grown to three
times the size of its entities is replaced by one record of all of them.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.bucket_logs import Head, check_age, checked
from wallaroo.dataflow.buckets import Bucket, Changes, Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.spilled_entities import SpilledEntities
from wallaroo.dataflow.state_records import unpacked_changes
from wallaroo.dataflow.user_logs import log_event
from wallaroo.engine.realtime.appended_file import AppendedFile
from wallaroo.engine.realtime.frames import Appended
from wallaroo.engine.realtime.other_states import OtherStates
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from wallaroo.engine.realtime.state_memory import StateMemory

MIN_LOG_BYTES = 64 * 1024
"""Smaller logs are not compacted."""
_LEAST_REBASED_BYTES = 16 * 1024**2
_MAX_LOGGED = 10
"""Maximum number of unloadable entities of a partition that are logged individually."""


class PartitionState:
    """The entities of one partition.

    Args:
        serializer: Knows the state partitions, and how their entities are saved.
        bucket_in: From state partition and key to the bucket in the state store.
        bucket_of: From key to bucket, for states that the application does not have.
        memory: Keeps the entities, if there is a limit to what they take.
    """

    def __init__(
        self,
        serializer: EntitySerializer,
        bucket_in: Callable[[int, Any], int],
        bucket_of: Callable[[Any], int],
        memory: StateMemory | None = None,
    ) -> None:
        self.serializer = serializer
        self.memory = memory
        self._bucket_in = bucket_in
        self.others = OtherStates(bucket_of)
        """What there is of states that the application does not have."""
        self.bucket = Bucket(memory.states if memory else [{} for _ in serializer.partitions])
        """The entities."""
        self.log_bytes = 0
        """Size of the logs of all buckets, as of their last save."""
        self._heads: dict[int, Head] = {}
        """By bucket: the head of its log, as of the last epoch."""
        self._changed: list[set[Any]] = [set() for _ in serializer.partitions]
        """Keys of entities that changed since then, by number of the state partition."""
        self._forgotten: list[set[Any]] = [set() for _ in serializer.partitions]
        self._ended: int | None = None
        """Number of the chunk at the end of which the last epoch ended."""
        self._to_save: MutableMapping[int, Appended] = (
            AppendedFile(memory.directory) if memory else {}
        )
        """What Spark is to save of that epoch, by bucket; nothing else has changed."""

    def bucket_for_level(self) -> Bucket:
        """The same entities, with timers of their own."""
        return replace(self.bucket)

    def open(self, bucket: int, log: str, head: Head | None, records: Iterable[bytes]) -> None:
        """Take in what the state store has of *bucket*.

        Args:
            bucket: Number of the bucket.
            log: Name of its log.
            head: Head of the log; None if it has none.
            records: All records of the log in order.

        Raises:
            DamagedFile: The log is not as it was written.
        """
        self._heads[bucket] = head or Head.of(log)
        self.log_bytes += self._heads[bucket].log_bytes
        for record in checked(log, head, records):
            self.serializer.apply(record, self.bucket, functools.partial(self.others.read, bucket))
            self.settle()

    def settle(self) -> None:
        """Keep to the memory that the entities may take; never while a chunk runs."""
        if self.memory is not None:
            self.memory.settle()

    def check_age(self, chunk: int) -> None:
        """Refuse buckets that are older than the end of *chunk*, at which all were saved.

        Raises:
            DamagedFile: There is one.
        """
        for head in self._heads.values() if chunk else ():
            check_age(head, chunk)

    def apply(self, record: bytes) -> None:
        """Take in the published changes of a chunk."""
        self.serializer.apply(record, self.bucket, self.others.note)
        for name, changes in unpacked_changes(record).items():
            if name in self.serializer.partitions:
                number = self.serializer.partitions.index(name)
                keys = {*changes.changed.keys, *changes.times}
                self._note_keys(number, keys, changes.forgotten)
        self.settle()

    def log_unloaded(self) -> None:
        """Log the entities that cannot be loaded."""
        unloaded = list(self.bucket.unloaded.values())
        for one in unloaded[:_MAX_LOGGED]:
            log_event("error", str(one))
        if more := len(unloaded[_MAX_LOGGED:]):
            log_event("error", "more entities cannot be loaded", more=more)

    def record(self, changes: Changes) -> bytes:
        """The record of a chunk's *changes*, to be published; empty if there are none.

        Raises:
            RuntimeFailure: An entity cannot be saved.
        """
        if not changes:
            return b""
        self._note(changes)
        return self.serializer.record(changes)

    def end_epoch(self, chunk: int) -> bool:
        """Pack what changed until the end of *chunk*, with which an epoch ends, for `save`.

        Returns:
            Whether that was still to be done.

        Raises:
            RuntimeFailure: An entity cannot be saved.
        """
        if chunk == self._ended:
            return False
        self._to_save.clear()
        self._append(chunk)
        self._ended = chunk
        for keys in (*self._changed, *self._forgotten):
            keys.clear()
        self.others.saved()
        return True

    def save(self, bucket: int) -> Appended:
        """What the log of *bucket* is to have at the end of the epoch that has ended.

        If nothing has changed, it is a head that says how new the log is.
        """
        assert self._ended is not None
        before = self._heads[bucket]
        saved = self._to_save.pop(bucket, None) or Appended(replace(before, at=self._ended), b"")
        self._heads[bucket] = saved.head
        self.log_bytes += saved.head.log_bytes - before.log_bytes
        return saved

    def size(self) -> Sequence[int]:
        """Figures that change with the state: its entities, and the bytes of all logs."""
        stored = self.memory.stored if self.memory else ()
        return [*map(len, self.bucket.entities), self.log_bytes, *stored]

    def _note(self, changes: Changes) -> None:
        for number, entities in enumerate(changes.changed):
            self._note_keys(number, entities.keys(), changes.forgotten[number])
        for number, key in changes.times:
            self._changed[number].add(key)

    def _note_keys(self, number: int, changed: Iterable[Any], forgotten: Iterable[Any]) -> None:
        """Note that entities are to be saved at the end of the epoch."""
        self._forgotten[number].update(forgotten)
        self._changed[number].difference_update(forgotten)
        self._changed[number].update(changed)

    def _append(self, chunk: int) -> None:
        """Note what the logs of the buckets are to have at the end of *chunk*, where they change.

        One bucket after the other: together, their entities may not fit into memory.
        """
        outgrown: dict[int, Head] = {}
        added = 0
        for bucket, (changes, unloaded) in self._by_bucket():
            others = self.others.lacking(bucket)
            record = self.serializer.record(changes, unloaded, grown=False, others=others)
            head = self._heads[bucket].appended(record, chunk)
            self._to_save[bucket] = Appended(head, record)
            added += len(record)
            if head.log_bytes > max(MIN_LOG_BYTES, 3 * head.base_bytes):
                outgrown[bucket] = head
        with contextlib.suppress(RuntimeFailure):  # an entity was spoilt that no function changed
            self._rebase(outgrown if self.memory is None else _largest(outgrown, added))

    def _by_bucket(self) -> Iterator[tuple[int, tuple[Changes, dict[tuple[int, Any], Unloaded]]]]:
        """What changed since the last epoch, and what of it could not be loaded."""
        count, bucket_in = len(self.serializer.partitions), self._bucket_in
        made: dict[int, tuple[list[list[Any]], list[set[Any]]]]
        made = defaultdict(lambda: ([[] for _ in range(count)], [set() for _ in range(count)]))
        for number in range(count):
            for key in self._forgotten[number]:
                made[bucket_in(number, key)][1][number].add(key)
            for key in self._changed[number]:
                made[bucket_in(number, key)][0][number].append(key)
        for bucket in self.others.changed:
            made[bucket]  # even if nothing else of it has changed
        times = self.bucket.times
        for bucket, (changed, forgotten) in made.items():
            changes, unloaded = Changes(_found(self.bucket.entities, changed), forgotten), {}
            for number, keys in enumerate(changed):
                for key in keys:
                    if times:
                        self._add_time(changes, number, key)
                    if key not in changes.changed[number]:
                        one = self.bucket.unloaded.get((number, key))
                        if one is not None:
                            unloaded[number, key] = one
            yield bucket, (changes, unloaded)

    def _rebase(self, outgrown: Mapping[int, Head]) -> None:
        """Let logs that have *outgrown* their entities be replaced by a record of all of them.

        Raises:
            RuntimeFailure: An entity cannot be saved.
        """
        if not outgrown:
            return
        found: dict[int, Appended] = {}
        for bucket, base in self._bases(outgrown):
            _, record, _ = self._to_save[bucket]
            appended = Appended(outgrown[bucket].rebased(base, record), record, base)
            if self.memory is None:
                found[bucket] = appended  # all of them, or none
            else:
                self._to_save[bucket] = appended
        self._to_save.update(found)

    def _bases(self, buckets: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Records of all entities of *buckets*, in one pass over those of the partition."""
        unloaded: dict[int, dict[tuple[int, Any], Unloaded]] = {bucket: {} for bucket in buckets}
        for where, one in self.bucket.unloaded.items():
            bucket = self._bucket_in(*where)
            if bucket in unloaded:
                unloaded[bucket][where] = one
        for bucket, entities in self._of_buckets(buckets):
            changes = Changes(entities, [set() for _ in entities])
            if self.bucket.times:
                for number, of in enumerate(entities):
                    for key in of:
                        self._add_time(changes, number, key)
            for where in unloaded[bucket]:
                self._add_time(changes, *where)
            yield (
                bucket,
                self.serializer.record(
                    changes, unloaded[bucket], grown=False, others=self.others.all_of(bucket)
                ),
            )

    def _of_buckets(self, buckets: Collection[int]) -> Iterator[tuple[int, list[dict[Any, Any]]]]:
        """All entities of *buckets*, by state partition and key."""
        if self.memory is not None:
            for of_states in zip(
                *(one.of_buckets(buckets) for one in self.memory.states), strict=True
            ):
                (bucket, _), *_ = of_states
                yield bucket, [entities for _, entities in of_states]
            return
        chosen: dict[int, list[dict[Any, Any]]]
        chosen = {bucket: [{} for _ in self.bucket.entities] for bucket in buckets}
        for number, entities in enumerate(self.bucket.entities):
            for key, entity in entities.items():
                if (found := chosen.get(self._bucket_in(number, key))) is not None:
                    found[number][key] = entity
        yield from chosen.items()

    def _add_time(self, changes: Changes, number: int, key: Any) -> None:
        if (time := self.bucket.times.get((number, key))) is not None:
            changes.times[number, key] = time


def _found(entities: Sequence[Any], keys: Sequence[Sequence[Any]]) -> list[dict[Any, Any]]:
    """Those of *entities* with these *keys*, by state partition."""
    return [
        of.read(some)
        if isinstance(of, SpilledEntities)
        else {key: of[key] for key in some if key in of}
        for of, some in zip(entities, keys, strict=True)
    ]


def _largest(outgrown: Mapping[int, Head], added: int) -> dict[int, Head]:
    """Some of the logs that have *outgrown* their entities, so that not all come at once.

    In the long run, records of all entities take half the bytes of those that were *added*.
    """
    chosen: dict[int, Head] = {}
    room = max(added, _LEAST_REBASED_BYTES)
    for bucket, head in sorted(outgrown.items(), key=lambda one: -one[1].log_bytes):
        room -= max(head.base_bytes, head.log_bytes // 4)
        if room < 0 and chosen:
            break
        chosen[bucket] = head
    return chosen
