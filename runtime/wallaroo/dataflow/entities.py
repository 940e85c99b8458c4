"""Records of state entities, written and read: published changes, logs of buckets, notes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from wallaroo.dataflow.buckets import Bucket, Changes, Unloaded, Where
from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.savable import Codec, Unsavable, codec_of, saved, too_large
from wallaroo.dataflow.saved_entities import Saved, loaded_alone, saved_alone
from wallaroo.dataflow.state_records import (
    StateChanges,
    kept_of,
    packed_changes,
    times_of,
    unpacked_changes,
)
from wallaroo.errors import RuntimeFailure
from wallaroo.model.migrations import FIRST, MigrationError, Versions
from wallaroo.model.timing import KeyTime
from wallaroo.user_code.exceptions import describe_error, pass_interrupt


@has_role(Role.SAVING)
@dataclass
class EntitySerializer:
    """Reads and writes the records of an application's entities.

    Args:
        partitions: Names of the state partitions by number.
        codecs: Custom codecs by partition number; entities of other partitions are pickled.
        limit_bytes: Largest size of an entity when it is saved; None for any.
        versions: Versions of the classes that have several, by partition number.
    """

    partitions: Sequence[str]
    codecs: Mapping[int, Codec] = field(default_factory=dict)
    limit_bytes: int | None = None
    versions: Mapping[int, Versions] = field(default_factory=dict)
    migrated: dict[int, int] = field(default_factory=dict)
    """Number of entities that were loaded from an earlier version, by partition number."""
    _tried: set[tuple[int, type]] = field(default_factory=set)
    """Classes, by partition, of which an object was loaded after saving, as a check."""

    @classmethod
    def of(cls, program: Program, limit_bytes: int | None = None) -> Self:
        """The serializer of the application of *program*."""
        application, partitions = program.application, program.partitions
        codecs = [codec_of(application, partition) for partition in partitions]
        return cls(
            [partition.name for partition in partitions],
            {number: codec for number, codec in enumerate(codecs) if codec is not None},
            limit_bytes,
            {n: one.versions for n, one in enumerate(partitions) if one.versions is not None},
        )

    def read(self, records: Iterable[bytes]) -> Bucket:
        """Return the bucket that results from *records*.

        Raises:
            DamagedFile: One of them is not as it was written.
        """
        bucket = Bucket([{} for _ in self.partitions])

        def note_other(name: str, changes: StateChanges) -> None:
            keys = bucket.others.setdefault(name, set())
            keys.difference_update(changes.forgotten)
            keys.update(changes.changed.keys, *(kept for _, kept, *_ in changes.kept))

        for record in records:
            self.apply(record, bucket, note_other)
        return bucket

    def apply(
        self,
        record: bytes,
        bucket: Bucket,
        on_other: Callable[[str, StateChanges], None] = lambda _name, _changes: None,
    ) -> None:
        """Apply *record* to the entities of *bucket*.

        What it says of states that the application does not have is for *on_other*.

        Raises:
            DamagedFile: It is not as it was written.
        """
        for name, changes in unpacked_changes(record).items():
            if name not in self.partitions:
                on_other(name, changes)
                continue
            number = self.partitions.index(name)
            entities, times = bucket.entities[number], bucket.times
            for key in changes.forgotten:
                entities.pop(key, None)
                bucket.unloaded.pop((number, key), None)
            if times:
                for key in (*changes.forgotten, *changes.changed.keys):
                    times.pop((number, key), None)
            if changes.version == self._version(number):
                self._load(number, changes.changed, bucket)
            else:
                self._migrate(number, changes.changed, changes.version, bucket)
            for content, keys, *version in changes.kept:
                kept_at = version[0] if version else FIRST
                self._load_kept(number, Saved(*content), keys, kept_at, bucket)
            for key, time in changes.times.items():
                if time is None:
                    times.pop((number, key), None)
                else:
                    times[number, key] = KeyTime.loaded(time)

    def _load(self, number: int, changed: Saved, bucket: Bucket) -> None:
        """Load saved entities, and identify those that cannot be loaded."""
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
                version = self._version(number)
                self._put(number, key, changed.only(place), entity, error, bucket, version)
            return
        if bucket.unloaded:
            for key in changed.keys:
                bucket.unloaded.pop((number, key), None)

    def _version(self, number: int) -> int:
        """The version of the class of a partition."""
        versions = self.versions.get(number)
        return FIRST if versions is None else versions.current

    def _migrate(
        self,
        number: int,
        content: Saved,
        version: int,
        bucket: Bucket,
        keys: set[Any] | None = None,
    ) -> None:
        """Load the entities in *content*, or those of *keys*, which are of another *version*."""
        versions, current = self.versions.get(number), self._version(number)
        if versions is None or version > current:
            msg = f"it is of version {version} of its class, and the code has version {current}"
            newer = MigrationError(msg)
            for place, key in enumerate(content.keys):
                if keys is None or key in keys:
                    self._put(number, key, content.only(place), None, newer, bucket, version)
            return
        found = content.fields_one_by_one(versions, version)
        for place, (key, stand_in, fields, error) in enumerate(found):
            if keys is not None and key not in keys:
                continue
            entity, problem = None, error
            if error is None:
                try:
                    entity = versions.migrated(fields, version, stand_in)
                    self.migrated[number] = self.migrated.get(number, 0) + 1
                except MigrationError as raised:
                    problem = raised
            self._put(number, key, content.only(place), entity, problem, bucket, version)

    def _load_kept(
        self, number: int, content: Saved, keys: set[Any], version: int, bucket: Bucket
    ) -> None:
        """Load the entities of *keys* in *content*, which could not be loaded before."""
        if version != self._version(number):
            self._migrate(number, content, version, bucket, keys)
            return
        for key, entity, error in content.one_by_one():
            if key in keys:
                self._put(number, key, content, entity, error, bucket, version)

    def _put(
        self,
        number: int,
        key: Any,
        content: Saved,
        entity: Any,
        error: BaseException | None,
        bucket: Bucket,
        version: int,
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
        unloaded = Unloaded(self.partitions[number], key, content, text, version)
        bucket.unloaded[number, key] = unloaded

    def record(
        self,
        changes: Changes,
        unloaded: Mapping[Where, Unloaded] | None = None,
        *,
        grown: bool = True,
        others: Mapping[str, StateChanges] = {},
    ) -> bytes:
        """Return a log record with *changes*, which keeps *unloaded* entities and *others*.

        Args:
            changes: Changed entities, keys of deleted ones, and times.
            unloaded: Entities that could not be loaded.
            others: What it says of states that the application does not have.
            grown: Whether entities may have grown since a record had them: then their sizes are
                checked.

        Raises:
            RuntimeFailure: An entity cannot be saved, or not be loaded again, or is too large.
        """
        found: dict[str, StateChanges] = {**others}
        for number, name in enumerate(self.partitions):
            entities, gone = changes.changed[number], changes.forgotten[number]
            kept, timed = kept_of(number, unloaded or {}), times_of(number, changes.times)
            if entities or gone or kept or timed:
                content = self._saved(number, entities, grown=grown)
                found[name] = StateChanges(content, list(gone), kept, timed, self._version(number))
        return packed_changes(found)

    def _saved(self, number: int, entities: dict[Any, Any], *, grown: bool) -> Saved:
        codec, dumped = self.codecs.get(number), entities
        try:
            if codec is not None:
                dumped = {key: codec.dump(entity) for key, entity in entities.items()}
            content = Saved.of(dumped)
            if codec is not None or content.form == "each":
                self._try_loading(number, entities, codec)
            if grown and self.limit_bytes is not None and content.size() > self.limit_bytes:
                self._check_sizes(dumped, self.limit_bytes)
        except BaseException as error:
            pass_interrupt(error)
            problems = self.problems(number, entities)
            (key, problem), *_ = problems.items() or [(None, describe_error(error))]
            msg = f"state {self.partitions[number]!r}, key {key!r:.100}: {problem}"
            raise RuntimeFailure(msg) from error
        return content

    def _try_loading(self, number: int, entities: dict[Any, Any], codec: Codec | None) -> None:
        """Load one object of each class that this process saves for the first time."""
        for kind in set(map(type, entities.values())):
            if (number, kind) not in self._tried:
                saved(next(one for one in entities.values() if type(one) is kind), codec)
                self._tried.add((number, kind))

    @staticmethod
    def _check_sizes(dumped: dict[Any, Any], limit_bytes: int) -> None:
        """Refuse entities that are too large, and not only so many that all together are.

        Raises:
            Unsavable: There is one.
        """
        for entity in dumped.values():
            size = len(pickle.dumps(entity, protocol=5))
            if size > limit_bytes:
                raise Unsavable(too_large(size, limit_bytes))

    def saved_alone(self, number: int, entity: Any) -> bytes:
        """One *entity* of a partition as bytes, which `loaded_alone` has loaded once if in doubt.

        Raises:
            Exception: It cannot be saved, or not be loaded again.
        """
        codec = self.codecs.get(number)
        data, is_sure = saved_alone(entity if codec is None else codec.dump(entity))
        if codec is not None or not is_sure:
            self.loaded_alone(number, data)
        return data

    def loaded_alone(self, number: int, data: bytes) -> Any:
        """The entity of a partition that was saved as *data*."""
        codec, entity = self.codecs.get(number), loaded_alone(data)
        return entity if codec is None else codec.load(entity)

    def problems(self, number: int, entities: Mapping[Any, Any]) -> dict[Any, str]:
        """Return, by key, why entities of a partition cannot be saved and loaded again."""
        problems: dict[Any, str] = {}
        for key, entity in entities.items():
            try:
                saved(entity, self.codecs.get(number), self.limit_bytes)
            except Unsavable as error:
                problems[key] = str(error)
        return problems
