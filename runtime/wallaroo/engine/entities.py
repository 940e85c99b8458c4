"""State entities: in memory between batches, safe in a log beside them.

A worker process keeps the entities of each bucket it has met. A batch appends the entities it
changed to the bucket's log, in Spark's state store, under a new random version. Now and then
another process gets a bucket (see `engine/spark/workers.py`): the one that has it as of the last
version uses what is in memory, one that has it as of a former version takes over the records
since then, and only one that has it not at all, or as of a version that came to nothing because
its batch was done over, reads the whole log. So a batch costs what it touches, and not what
exists. A log that has grown to three times what its entities take is replaced by one record of
them all.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from wallaroo.engine.columns import Columns
from wallaroo.engine.dues import Dues
from wallaroo.errors import RuntimeFailure

_IN_USE = "in use"
"""A version that no store tells: entities of a batch that did not reach `commit` are not used."""


@dataclass(frozen=True)
class Head:
    """What a bucket's log says of itself."""

    versions: tuple[str, ...] = ()
    """The last versions, the newest last: of each but the first the log has the record."""
    count: int = 0
    """Records that were ever appended: the place of the next one."""
    base_bytes: int = 0
    """Size of the record of all entities that the log begins with."""
    tail_bytes: int = 0
    """Size of the records behind it that it does not take in."""

    RECENT: ClassVar[int] = 16
    """Versions that are remembered."""

    @property
    def log_bytes(self) -> int:
        """Size of the log."""
        return self.base_bytes + self.tail_bytes

    def appended(self, size: int) -> Head:
        """The head behind one more record, of *size* bytes: a new version."""
        versions = (*self.versions, uuid.uuid4().hex)[-self.RECENT :]
        return Head(versions, self.count + 1, self.base_bytes, self.tail_bytes + size)

    def rebased(self, size: int) -> Head:
        """The head of a log that is a base of *size* bytes, and the last record, which is in it."""
        return Head(self.versions[-2:], self.count, size, 0)


class BucketLog(Protocol):
    """The log of one bucket, as the state store keeps it."""

    def head(self) -> Head | None:
        """The head of the last commit, None before the first."""

    def record(self, place: int) -> bytes:
        """The record at *place*."""

    def records(self) -> Iterable[bytes]:
        """The base, if there is one, and all records in order of their places."""

    def append(self, head: Head, record: bytes, base: bytes | None = None) -> None:
        """Add *record* at the last place that *head* counts; *base* replaces all before it."""


@dataclass
class Bucket:
    """The entities of one bucket in this process."""

    entities: list[dict[Any, Any]]
    """Entities by partition number and key."""
    version: str | None = None
    """Version that `entities` are of; `_IN_USE` while a batch is changing them."""
    head: Head = Head()
    """Head of the log as of the last commit."""
    dues: Dues | None = None
    """When its windows are due; None where that has yet to be found out."""


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
        """The entities of *bucket* as of the last commit: from memory, as far as they are there."""
        head = log.head()
        known = self._buckets.get(bucket)
        if known is None or not self._catch_up(known, head, log):
            known = self._buckets[bucket] = self.read(() if head is None else log.records())
        known.version, known.head = _IN_USE, head or Head()
        return known

    def commit(self, bucket: int, log: BucketLog, changes: Changes) -> None:
        """Make the *changes* of *bucket* safe, and what is in memory valid again."""
        known = self._buckets[bucket]
        if changes or not known.head.versions:
            record = self.record(changes.changed, changes.forgotten)
            head, base = known.head.appended(len(record)), None
            if head.log_bytes > max(self.MIN_LOG_BYTES, 3 * head.base_bytes):
                base = self.record(known.entities, [set() for _ in self.partitions])
                head = head.rebased(len(base))
            log.append(head, record, base)
            known.head = head
        known.version = known.head.versions[-1]

    def _catch_up(self, known: Bucket, head: Head | None, log: BucketLog) -> bool:
        """Bring *known* up to *head*; tells whether that can be done."""
        if head is None or known.version is None:
            return head is None and known.version is None
        if known.version not in head.versions:
            return False
        behind = len(head.versions) - 1 - head.versions.index(known.version)
        if behind:
            known.version, known.dues = _IN_USE, None  # nothing, should a record not be read
            for place in range(head.count - behind, head.count):
                self._apply(log.record(place), known.entities)
        return True

    def read(self, records: Iterable[bytes]) -> Bucket:
        """The bucket of which *records* tell."""
        bucket = Bucket([{} for _ in self.partitions])
        for record in records:
            self._apply(record, bucket.entities)
        return bucket

    def _apply(self, record: bytes, entities: list[dict[Any, Any]]) -> None:
        """Do to *entities* what *record* says."""
        for name, (changed, forgotten) in pickle.loads(record).items():
            if name not in self.partitions:
                continue
            number = self.partitions.index(name)
            codec = self.codecs.get(number)
            if codec is None:
                _put(changed, entities[number])
            else:
                dumped: dict[Any, Any] = {}
                _put(changed, dumped)
                entities[number] |= {key: codec.load(entity) for key, entity in dumped.items()}
            for key in forgotten:
                entities[number].pop(key, None)

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


def _put(changed: Columns | dict[Any, Any], entities: dict[Any, Any]) -> None:
    """Make what a record holds the entities of their keys in *entities*."""
    if isinstance(changed, Columns):
        changed.put_into(entities)
    else:
        entities.update(changed)


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
