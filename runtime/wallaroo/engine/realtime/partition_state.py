"""The entities of one partition: in memory, in the logs of its buckets, in published changes.

In memory a partition is one bucket. A chunk's changes are published with its outputs; at the end of
an epoch the changes of all its chunks go to the logs of the buckets in Spark's state store, in the
format of a bucket's log, and the published ones are not needed any more. They are packed before a
chunk of the next epoch runs, and Spark takes them over meanwhile. A log that has grown to three
times the size of its entities is replaced by one record of all of them.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from wallaroo.dataflow.bucket_logs import Head, check_age, checked
from wallaroo.dataflow.buckets import Bucket, Changes, Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.state_records import unpacked_changes
from wallaroo.dataflow.user_logs import log_event
from wallaroo.engine.realtime.frames import Appended
from wallaroo.engine.realtime.other_states import OtherStates
from wallaroo.errors import RuntimeFailure

MIN_LOG_BYTES = 64 * 1024
"""Smaller logs are not compacted."""
_MAX_LOGGED = 10
"""Maximum number of unloadable entities of a partition that are logged individually."""


class PartitionState:
    """The entities of one partition.

    Args:
        serializer: Knows the state partitions, and how their entities are saved.
        bucket_in: From state partition and key to the bucket in the state store.
        bucket_of: From key to bucket, for states that the application does not have.
    """

    def __init__(
        self,
        serializer: EntitySerializer,
        bucket_in: Callable[[int, Any], int],
        bucket_of: Callable[[Any], int],
    ) -> None:
        self.serializer = serializer
        self._bucket_in = bucket_in
        self.others = OtherStates(bucket_of)
        """What there is of states that the application does not have."""
        self.bucket = Bucket([{} for _ in serializer.partitions])
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
        self._to_save: dict[int, Appended] = {}
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
        self._to_save, self._ended = self._appended(chunk), chunk
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
        """Numbers of entities by state partition, and the bytes of all logs."""
        return [*map(len, self.bucket.entities), self.log_bytes]

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

    def _appended(self, chunk: int) -> dict[int, Appended]:
        """What the logs of the buckets are to have at the end of *chunk*, where they change."""
        found: dict[int, Appended] = {}
        outgrown: dict[int, Appended] = {}
        for bucket, (changes, unloaded) in self._by_bucket().items():
            others = self.others.lacking(bucket)
            record = self.serializer.record(changes, unloaded, grown=False, others=others)
            head = self._heads[bucket].appended(record, chunk)
            found[bucket] = Appended(head, record)
            if head.log_bytes > max(MIN_LOG_BYTES, 3 * head.base_bytes):
                outgrown[bucket] = found[bucket]
        try:
            bases = self._bases(outgrown)
        except RuntimeFailure:  # an entity was spoilt that no function said to have changed
            bases = {}
        for bucket, base in bases.items():
            head, record, _ = outgrown[bucket]
            found[bucket] = Appended(head.rebased(base, record), record, base)
        return found

    def _by_bucket(self) -> dict[int, tuple[Changes, dict[tuple[int, Any], Unloaded]]]:
        """What changed since the last epoch, and what of it could not be loaded."""
        count, bucket_in = len(self.serializer.partitions), self._bucket_in
        times = self.bucket.times
        made: dict[int, tuple[Changes, dict[tuple[int, Any], Unloaded]]]
        made = defaultdict(lambda: (Changes.none(count), {}))
        for number, entities in enumerate(self.bucket.entities):
            for key in self._forgotten[number]:
                made[bucket_in(number, key)][0].forgotten[number].add(key)
            for key in self._changed[number]:
                changes, unloaded = made[bucket_in(number, key)]
                if times:
                    self._add_time(changes, number, key)
                if key in entities:
                    changes.changed[number][key] = entities[key]
                elif (one := self.bucket.unloaded.get((number, key))) is not None:
                    unloaded[number, key] = one
        for bucket in self.others.changed:
            made[bucket]  # even if nothing else of it has changed
        return made

    def _bases(self, buckets: Iterable[int]) -> dict[int, bytes]:
        """Records of all entities of *buckets*, in one pass over those of the partition."""
        count, bucket_in = len(self.serializer.partitions), self._bucket_in
        times = self.bucket.times
        chosen = {bucket: Changes.none(count) for bucket in buckets}
        if not chosen:
            return {}
        for number, entities in enumerate(self.bucket.entities):
            for key, entity in entities.items():
                if (changes := chosen.get(bucket_in(number, key))) is not None:
                    changes.changed[number][key] = entity
                    if times:
                        self._add_time(changes, number, key)
        unloaded: dict[int, dict[tuple[int, Any], Unloaded]] = {bucket: {} for bucket in chosen}
        for where, one in self.bucket.unloaded.items():
            bucket = bucket_in(*where)
            if bucket in chosen:
                unloaded[bucket][where] = one
                self._add_time(chosen[bucket], *where)
        return {
            bucket: self.serializer.record(
                changes, unloaded[bucket], grown=False, others=self.others.all_of(bucket)
            )
            for bucket, changes in chosen.items()
        }

    def _add_time(self, changes: Changes, number: int, key: Any) -> None:
        if (time := self.bucket.times.get((number, key))) is not None:
            changes.times[number, key] = time
