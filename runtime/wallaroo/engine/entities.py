"""State entities: in memory between batches, safe in a log beside them.

A worker process keeps the entities of each bucket it has met. A batch appends the entities it
changed to the bucket's log, in Spark's state store, and gives the bucket a new random version; the
next batch uses what is in memory if it is of the version that the store tells, and reads the log
if not: another process had the bucket in between, or the batch was done over. So a batch costs
what it touches, and not what exists. A log that has grown to twice what its entities take is
replaced by one record of them all.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from wallaroo.engine.columns import Columns
from wallaroo.engine.dues import Dues
from wallaroo.errors import RuntimeFailure

_IN_USE = "in use"
"""A version that no store tells: entities of a batch that did not reach `commit` are not used."""


class BucketLog(Protocol):
    """The log of one bucket, as the state store keeps it."""

    def version(self) -> str | None:
        """The version of the last commit, None before the first."""

    def records(self) -> Iterable[bytes]:
        """The records, in the order they were appended."""

    def append(self, version: str, record: bytes) -> None:
        """Add *record* and set the version."""

    def replace(self, version: str, record: bytes) -> None:
        """Put *record* in the place of all records and set the version."""


@dataclass
class Bucket:
    """The entities of one bucket in this process."""

    entities: list[dict[Any, Any]]
    """Entities by partition number and key."""
    version: str | None = None
    """Version that `entities` are of; `_IN_USE` while a batch is changing them."""
    dues: Dues | None = None
    """When its windows are due; None where that has yet to be found out."""
    log_bytes: int = 0
    """Bytes of the log's records."""
    base_bytes: int = 0
    """Bytes of the record that last replaced the log."""


@dataclass(frozen=True)
class Changes:
    """What a batch did to the entities of a bucket."""

    changed: list[dict[Any, Any]]
    """Entities that changed, by partition number and key."""
    forgotten: list[set[Any]]
    """Keys whose entities are gone, by partition number."""

    @classmethod
    def none(cls, partitions: int) -> Changes:
        """No changes yet."""
        return cls([{} for _ in range(partitions)], [set() for _ in range(partitions)])

    def __bool__(self) -> bool:
        return any(self.changed) or any(self.forgotten)


@dataclass(frozen=True)
class Codec:
    """An application's own way to save the entities of a partition: something that pickles."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


@dataclass
class EntityCache:
    """The buckets that this process has in memory, of one application.

    Args:
        partitions: Names of the state partitions by number.
        codecs: Codecs of those that have one, by number; the entities of others are pickled.
    """

    partitions: Sequence[str]
    codecs: Mapping[int, Codec] = field(default_factory=dict)
    _buckets: dict[int, Bucket] = field(default_factory=dict)

    MIN_LOG_BYTES = 64 * 1024
    """A log smaller than this is not worth replacing."""

    def open(self, bucket: int, log: BucketLog) -> Bucket:
        """The entities of *bucket* as of the last commit: from memory, or read from *log*."""
        version = log.version()
        known = self._buckets.get(bucket)
        if known is None or known.version != version:
            known = self._buckets[bucket] = self._read(version, log)
        known.version = _IN_USE
        return known

    def commit(self, bucket: int, log: BucketLog, changes: Changes) -> None:
        """Make the *changes* of *bucket* safe, and what is in memory valid again."""
        known = self._buckets[bucket]
        if not changes and (unchanged := log.version()) is not None:
            known.version = unchanged
            return
        version = uuid.uuid4().hex
        record = self.record(changes.changed, changes.forgotten)
        log_bytes = known.log_bytes + len(record)
        if log_bytes > max(self.MIN_LOG_BYTES, 2 * known.base_bytes):
            record = self.record(known.entities, [set() for _ in self.partitions])
            log.replace(version, record)
            known.log_bytes = known.base_bytes = len(record)
        else:
            log.append(version, record)
            known.log_bytes = log_bytes
        known.version = version

    def _read(self, version: str | None, log: BucketLog) -> Bucket:
        return self.read(() if version is None else log.records(), version)

    def read(self, records: Iterable[bytes], version: str | None = None) -> Bucket:
        """The bucket of which *records* tell, as of *version*."""
        bucket = Bucket([{} for _ in self.partitions], version)
        numbers = {name: number for number, name in enumerate(self.partitions)}
        saved: list[dict[Any, Any]] = [{} for _ in self.partitions]
        for record in records:
            bucket.log_bytes += len(record)
            for name, (changed, forgotten) in pickle.loads(record).items():
                if name in numbers:
                    of_partition = saved[numbers[name]]
                    in_columns = isinstance(changed, Columns)
                    of_partition.update(changed.entities() if in_columns else changed)
                    for key in forgotten:
                        of_partition.pop(key, None)
        for number, of_partition in enumerate(saved):
            codec = self.codecs.get(number)
            bucket.entities[number] = (
                of_partition
                if codec is None
                else {key: codec.load(kept) for key, kept in of_partition.items()}
            )
        return bucket

    def record(self, changed: Sequence[dict[Any, Any]], forgotten: Sequence[set[Any]]) -> bytes:
        """The record of a log that says what `Changes` says."""
        named: dict[str, tuple[dict[Any, Any], list[Any]]] = {}
        for number, name in enumerate(self.partitions):
            entities, gone, codec = changed[number], forgotten[number], self.codecs.get(number)
            if codec is not None:
                entities = {key: codec.dump(entity) for key, entity in entities.items()}
            if entities or gone:
                named[name] = (entities, list(gone))
        compact = {
            name: (Columns.of(entities) or entities, gone)
            for name, (entities, gone) in named.items()
        }
        try:
            return pickle.dumps(compact, protocol=5)
        except Exception as error:
            raise RuntimeFailure(_unpicklable(named, error)) from error


def _unpicklable(named: dict[str, tuple[dict[Any, Any], list[Any]]], error: Exception) -> str:
    for name, (entities, _) in named.items():
        for key, entity in entities.items():
            try:
                pickle.dumps((key, entity), protocol=5)
            except Exception as cause:
                return (
                    f"state {name!r}, key {key!r}: an entity of class {type(entity).__name__} "
                    f"cannot be saved, because it does not pickle: {cause}"
                )
    return f"the state cannot be saved: {error}"
