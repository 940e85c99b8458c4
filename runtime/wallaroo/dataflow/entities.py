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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from wallaroo.dataflow.saved_entities import Saved
from wallaroo.dataflow.timers import Timers
from wallaroo.dataflow.user_logs import tell
from wallaroo.errors import RuntimeFailure
from wallaroo.model.raised import describe_error, pass_interrupt
from wallaroo.model.savable import Codec, Unsavable, saved

_IN_USE = "in use"
"""A version that no store tells: entities of a batch that did not reach `commit` are not used."""


_MOST_LOGGED = 10
"""Entities of a bucket that cannot be loaded and are logged one by one."""


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


@dataclass(frozen=True)
class Unloaded:
    """An entity that could not be loaded: as it was saved, for code that can load it."""

    state: str
    key: Any
    saved: Saved
    """What it was saved in, perhaps with others; by an application's own codec, what that gave."""
    error: str

    def __str__(self) -> str:
        return (
            f"state {self.state!r}, key {self.key!r:.100}: the entity, of class "
            f"{self.saved.class_name()}, cannot be loaded: {self.error}; it is kept as it was saved"
        )


Kept = tuple[tuple[Any, ...], set[Any]]
"""What a `Saved` holds, and the keys of those entities in it that could not be loaded."""


class Unloadable(Exception):
    """The entity of a message's key cannot be loaded."""


@dataclass
class Bucket:
    """The entities of one bucket in this process."""

    entities: list[dict[Any, Any]]
    """Entities by partition number and key."""
    version: str | None = None
    """Version that `entities` are of; `_IN_USE` while a batch is changing them."""
    head: Head = Head()
    """Head of the log as of the last commit."""
    dues: Timers | None = None
    """When its windows are due; None where that has yet to be found out."""
    unloaded: dict[tuple[int, Any], Unloaded] = field(default_factory=dict)
    """Entities that could not be loaded, by partition number and key."""


@dataclass(frozen=True)
class Changes:
    """What a batch did to the entities of a bucket."""

    changed: list[dict[Any, Any]]
    """Entities that changed, by partition number and key."""
    forgotten: list[set[Any]]
    """Keys whose entities are gone, by partition number; those that changed are there again."""

    @classmethod
    def none(cls, partitions: int) -> Changes:
        """No changes yet."""
        return cls([{} for _ in range(partitions)], [set() for _ in range(partitions)])

    def __bool__(self) -> bool:
        return any(self.changed) or any(self.forgotten)


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
    _tried: set[tuple[int, type]] = field(default_factory=set)
    """Classes, by partition, of which an object was loaded after it was saved."""

    MIN_LOG_BYTES = 64 * 1024
    """A log smaller than this is not worth replacing."""

    def open(self, bucket: int, log: BucketLog) -> Bucket:
        """The entities of *bucket* as of the last commit: from memory, as far as they are there."""
        head = log.head()
        known = self._buckets.get(bucket)
        before = {} if known is None else dict(known.unloaded)
        if known is None or not self._catch_up(known, head, log):
            known = self._buckets[bucket] = self.read(() if head is None else log.records())
        if known.unloaded != before:
            _log([one for where, one in known.unloaded.items() if where not in before])
        known.version, known.head = _IN_USE, head or Head()
        return known

    def commit(self, bucket: int, log: BucketLog, changes: Changes) -> None:
        """Make the *changes* of *bucket* safe, and what is in memory valid again."""
        known = self._buckets[bucket]
        if changes or not known.head.versions:
            record = self.record(changes.changed, changes.forgotten)
            head, base = known.head.appended(len(record)), None
            if head.log_bytes > max(self.MIN_LOG_BYTES, 3 * head.base_bytes):
                base = self._base(known, log, record)
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
                self._apply(log.record(place), known)
        return True

    def read(self, records: Iterable[bytes]) -> Bucket:
        """The bucket of which *records* tell."""
        bucket = Bucket([{} for _ in self.partitions])
        for record in records:
            self._apply(record, bucket)
        return bucket

    def _base(self, known: Bucket, log: BucketLog, record: bytes) -> bytes:
        """The record of all that the log says with *record* behind it."""
        none: list[set[Any]] = [set() for _ in self.partitions]
        try:
            return self.record(known.entities, none, known.unloaded)
        except RuntimeFailure:  # one that was never said to have changed: the log has others only
            logged = self.read([*log.records(), record])
            return self.record(logged.entities, none, logged.unloaded)

    def _apply(self, record: bytes, bucket: Bucket) -> None:
        """Do to the entities of *bucket* what *record* says."""
        for name, (changed, forgotten, *kept) in pickle.loads(record).items():
            if name not in self.partitions:
                continue
            number = self.partitions.index(name)
            entities = bucket.entities[number]
            for key in forgotten:
                entities.pop(key, None)
                bucket.unloaded.pop((number, key), None)
            self._load(number, Saved(*changed), bucket)
            for content, keys in kept[0] if kept else ():
                self._load_kept(number, Saved(*content), keys, bucket)

    def _load(self, number: int, changed: Saved, bucket: Bucket) -> None:
        """Load what is saved, and single out what cannot be loaded."""
        entities, codec = bucket.entities[number], self.codecs.get(number)
        try:
            if codec is None:
                changed.put_into(entities)
            else:
                dumped: dict[Any, Any] = {}
                changed.put_into(dumped)
                entities.update({key: codec.load(entity) for key, entity in dumped.items()})
        except MemoryError:
            raise
        except BaseException as raised:
            pass_interrupt(raised)
            for place, (key, entity, error) in enumerate(changed.one_by_one()):
                self._put(number, key, changed.only(place), entity, error, bucket)
            return
        if bucket.unloaded:
            for key in changed.keys:
                bucket.unloaded.pop((number, key), None)

    def _load_kept(self, number: int, content: Saved, keys: set[Any], bucket: Bucket) -> None:
        """Load entities that could not be loaded before: those of *keys* among *content*."""
        for key, entity, error in content.one_by_one():
            if key in keys:
                self._put(number, key, content, entity, error, bucket)

    def _put(
        self,
        number: int,
        key: Any,
        content: Saved,
        entity: Any,
        error: BaseException | None,
        bucket: Bucket,
    ) -> None:
        codec = self.codecs.get(number)
        if error is None and codec is not None:
            try:
                entity = codec.load(entity)
            except BaseException as raised:
                pass_interrupt(raised)
                error = raised
        if error is None:
            bucket.entities[number][key] = entity
            bucket.unloaded.pop((number, key), None)
            return
        bucket.entities[number].pop(key, None)
        text = describe_error(error)[:300]
        unloaded = Unloaded(self.partitions[number], key, content, text)
        bucket.unloaded[number, key] = unloaded

    def record(
        self,
        changed: Sequence[dict[Any, Any]],
        forgotten: Sequence[set[Any]],
        unloaded: Mapping[tuple[int, Any], Unloaded] | None = None,
    ) -> bytes:
        """The record of a log that says what `Changes` says, and keeps what is *unloaded*.

        Raises:
            RuntimeFailure: An entity cannot be saved, or not be loaded again.
        """
        named: dict[str, tuple[Any, ...]] = {}
        for number, name in enumerate(self.partitions):
            entities, gone = changed[number], forgotten[number]
            kept = _kept(number, unloaded or {})
            if entities or gone or kept:
                content = self._saved(number, entities)
                # as a plain tuple: a record must not depend on where a class is defined
                named[name] = (tuple(content), list(gone), *([kept] if kept else []))
        return pickle.dumps(named, protocol=5)

    def _saved(self, number: int, entities: dict[Any, Any]) -> Saved:
        codec, dumped = self.codecs.get(number), entities
        try:
            if codec is not None:
                dumped = {key: codec.dump(entity) for key, entity in entities.items()}
            content = Saved.of(dumped)
            if codec is not None or content.form == "each":
                self._try(number, entities, codec)
        except BaseException as error:
            pass_interrupt(error)
            problems = self.problems(number, entities)
            (key, problem), *_ = problems.items() or [(None, describe_error(error))]
            msg = f"state {self.partitions[number]!r}, key {key!r:.100}: {problem}"
            raise RuntimeFailure(msg) from error
        return content

    def _try(self, number: int, entities: dict[Any, Any], codec: Codec | None) -> None:
        """Load an object of each class that this process saves for the first time."""
        for kind in set(map(type, entities.values())):
            if (number, kind) not in self._tried:
                saved(next(one for one in entities.values() if type(one) is kind), codec)
                self._tried.add((number, kind))

    def problems(self, number: int, entities: Mapping[Any, Any]) -> dict[Any, str]:
        """By key, which of *entities* of a partition cannot be saved and loaded again, and why."""
        found: dict[Any, str] = {}
        for key, entity in entities.items():
            try:
                saved(entity, self.codecs.get(number))
            except Unsavable as error:
                found[key] = str(error)
        return found


def _kept(number: int, unloaded: Mapping[tuple[int, Any], Unloaded]) -> list[Kept]:
    """What is *unloaded* of a partition, by what it was saved in."""
    found: dict[int, Kept] = {}
    for (partition, key), one in unloaded.items():
        if partition == number:
            found.setdefault(id(one.saved), (tuple(one.saved), set()))[1].add(key)
    return list(found.values())


def _log(unloaded: list[Unloaded]) -> None:
    for one in unloaded[:_MOST_LOGGED]:
        tell("error", str(one))
    if len(unloaded) > _MOST_LOGGED:
        tell("error", "more entities cannot be loaded", more=len(unloaded) - _MOST_LOGGED)
