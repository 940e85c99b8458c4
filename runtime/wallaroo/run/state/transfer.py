"""State entities in files: written by an export; read, validated and packed by an import."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.json_codec import about, entity_json, from_plain
from wallaroo.dataflow.program import Program
from wallaroo.errors import UsageError
from wallaroo.model.migrations import FIRST, MigrationError, Versions, fields_of
from wallaroo.model.timing import KeyTime
from wallaroo.run.state.classes import EntityShape
from wallaroo.system.printable import printable

Form = Literal["json", "pickle"]
_FIELDS = ("state", "key", "entity")
_EXPECTED = "expected an object with state, key and entity"
_PICKLED = pickle.PROTO
"""The first byte of a file that `wallaroo state export --format pickle` wrote."""
_SHOWN_BYTES = 60
_GROUP_SIZE = 20_000
"""Number of entities that are packed together; bounds the memory."""


class ImportedEntity(NamedTuple):
    """An entity read from a file."""

    place: str
    """Its place in the file, for messages."""
    state: str
    """Name of its state partition."""
    key: Any
    entity: Any
    time: KeyTime | None = None
    """The time of its key; None if it has none."""
    clock: int | None = None
    """What the clock of its state showed, in nanoseconds; None if that is not known."""


def written_entity(
    state: str,
    key: Any,
    entity: Any,
    form: Form,
    time: KeyTime | None = None,
    version: int = FIRST,
    clock: int | None = None,
) -> bytes:
    """An entity in the format of an export."""
    shown = {} if clock is None else {"clock": clock}
    if form == "pickle":
        more = about(time, version) | shown
        return pickle.dumps(((state, key), entity, *([more] if more else [])), protocol=5)
    plain = entity_json(state, key, entity, time, version) | shown
    line = json.dumps(plain, ensure_ascii=False)
    return f"{line}\n".encode("utf-8", "surrogatepass")


def read_entities(
    file: Path, form: Form, name: str, versions: Mapping[str, Versions] | None = None
) -> Iterator[ImportedEntity]:
    """The entities that `wallaroo state export` wrote to *file*, which messages call *name*.

    Those of earlier *versions*, by state, are migrated.

    Raises:
        UsageError: The file contains something else; the message names the place.
    """
    place = name
    try:
        with file.open("rb") as opened:
            number, unit = 0, "line" if form == "json" else "entity"
            read = _read_line if form == "json" else _read_pickle
            while opened.peek(1):
                number += 1
                place = f"{name}, {unit} {number}"
                (state, key), entity, extra = read(opened, versions or {})
                time = extra.get("time")
                known = None if time is None else KeyTime.from_json(time)
                yield ImportedEntity(place, state, key, entity, known, _clock_in(extra))
    except Exception as error:  # code that unpickling runs may raise anything
        msg = f"{place}: not an entity of an export as {form}: {_describe(error)}"
        raise UsageError(msg) from error


class Packer:
    """Packs entities as records for the logs of buckets.

    Args:
        program: The application that the entities are imported into.
        clocks: What the clock of each of its states with event time shows, by number; the times of
            keys are changed from the clocks of the export to these.
    """

    def __init__(self, program: Program, clocks: Mapping[int, int] | None = None) -> None:
        self.program = program
        self._clocks = clocks or {}
        self._serializer = EntitySerializer.of(program)
        self._shapes: dict[str, EntityShape] = {}
        self.keys: set[tuple[str, Any]] = set()
        """State and key of each packed entity."""

    def pack(self, entities: Iterable[ImportedEntity]) -> Iterator[tuple[int, bytes]]:
        """Records for the logs that receive some of *entities*, each with its bucket.

        Raises:
            UsageError: An entity does not fit the application; the message says which, and why.
        """
        group: dict[int, Changes] = {}
        size = 0
        partitions = len(self.program.partitions)
        for imported in entities:
            number, bucket = self._check(imported)
            if bucket not in group:
                group[bucket] = Changes.none(partitions)
            group[bucket].changed[number][imported.key] = imported.entity
            if imported.time is not None and self.program.partitions[number].timing is not None:
                group[bucket].times[number, imported.key] = imported.time
            size += 1
            if size == _GROUP_SIZE:
                yield from self._records(group)
                group, size = {}, 0
        yield from self._records(group)

    def _records(self, group: dict[int, Changes]) -> Iterator[tuple[int, bytes]]:
        return ((bucket, self._serializer.record(changes)) for bucket, changes in group.items())

    def _check(self, imported: ImportedEntity) -> tuple[int, int]:
        """The number of the entity's state partition, and its bucket.

        Raises:
            UsageError: The entity does not fit.
        """
        place, name, key, entity, *_ = imported
        numbers = self.program.partition_numbers
        if name not in numbers:
            known = ", ".join(map(repr, numbers)) or "none"
            msg = f"{place}: the application has no state {name!r}; it has {known}"
            raise UsageError(msg)
        number = numbers[name]
        partition = self.program.partitions[number]
        problem = None
        try:
            bucket = self.program.bucket_in(number, key)
            if name not in self._shapes:
                self._shapes[name] = EntityShape(partition.new_entity())
            if not partition.accepts(key):
                problem = "the key is not among those that the state lists"
            elif (name, key) in self.keys:
                problem = "the file has an earlier entity with this key"
            else:
                problem = self._shapes[name].problem_with(entity)
                if problem is None:
                    self._shift(number, imported)
        except Exception as error:  # user code raised, or the key is not valid
            problem = _describe(error)
        if problem is not None:
            msg = f"{place}: state {name!r}, key {key!r}: {problem}"
            raise UsageError(msg)
        self.keys.add((name, key))
        return number, bucket

    def _shift(self, number: int, imported: ImportedEntity) -> None:
        """Let as much silence have passed by the clock here as had by that of the export."""
        if imported.clock is None or number not in self._clocks:
            return
        by_ns = self._clocks[number] - imported.clock
        if imported.time is not None:
            imported.time.seen_ns += by_ns
        if (windows := self.program.partitions[number].windows) is not None:
            windows.shift(imported.entity, by_ns)


class _InvalidEntity(ValueError):
    """The contents of a file are not an entity; the message says why."""


def _read_line(
    file: BinaryIO, versions: Mapping[str, Versions]
) -> tuple[tuple[str, Any], Any, Mapping[str, Any]]:
    line = file.readline()
    if line.startswith(_PICKLED):
        msg = "the file is a pickle: use --format pickle"
        raise _InvalidEntity(msg)
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"))
    except json.JSONDecodeError as error:
        msg = f"not valid JSON: {error.msg} at column {error.colno}"
        raise _InvalidEntity(msg) from error
    except UnicodeDecodeError as error:
        msg = f"not valid UTF-8: {error.reason} at byte {error.start}"
        raise _InvalidEntity(msg) from error
    if not isinstance(value, dict):
        msg = f"{_EXPECTED}, got {printable(line[:_SHOWN_BYTES].decode('utf-8', 'replace'))}"
        raise _InvalidEntity(msg)
    for name in _FIELDS:
        if name not in value:
            msg = f"the field {name!r} is missing: {_EXPECTED}"
            raise _InvalidEntity(msg)
    if not isinstance(value["state"], str):
        msg = f"the field 'state' must be the name of a state, not {value['state']!r}"
        raise _InvalidEntity(msg)
    named = value["state"], _decode(value, "key")
    of, version = versions.get(value["state"]), value.get("version", FIRST)
    _check_version(version, of)
    if of is not None and version != of.current:
        return named, _migrated(of, named, _decode_fields(value), version), value
    return named, _decode(value, "entity"), value


def _decode(fields: Mapping[str, Any], name: str) -> Any:
    try:
        return from_plain(fields[name])
    except Exception as error:  # classes that it names may raise anything
        msg = f"the field {name!r} cannot be decoded: {_describe(error)}"
        raise _InvalidEntity(msg) from error


def _read_pickle(
    file: BinaryIO, versions: Mapping[str, Versions]
) -> tuple[tuple[str, Any], Any, Mapping[str, Any]]:
    start = file.peek(1)[:1]  # type: ignore[attr-defined]
    if start == b"{":
        msg = "the file is JSON: omit --format pickle"
        raise _InvalidEntity(msg)
    pair = pickle.load(file)
    match pair:
        case ((str(state), key), entity):
            extra: Mapping[str, Any] = {}
        case ((str(state), key), entity, dict(extra)):
            pass
        case _:
            msg = f"expected ((state, key), entity), got {printable(repr(pair)[:_SHOWN_BYTES])}"
            raise _InvalidEntity(msg)
    of, version = versions.get(state), extra.get("version", FIRST)
    _check_version(version, of)
    if of is not None and version != of.current:
        entity = _migrated(of, (state, key), fields_of(entity), version)
    return (state, key), entity, extra


def _migrated(of: Versions, named: tuple[str, Any], fields: dict[str, Any], version: int) -> Any:
    try:
        return of.migrated(fields, version)
    except MigrationError as error:
        msg = f"state {named[0]!r}, key {named[1]!r:.100}: {error}"
        raise _InvalidEntity(msg) from error


def _check_version(version: Any, of: Versions | None) -> None:
    """Refuse an entity of a later version than that of the code."""
    current = FIRST if of is None else of.current
    if type(version) is not int or version > current:
        msg = f"it is of version {version} of its class, and the code has version {current}"
        raise _InvalidEntity(msg)


def _clock_in(extra: Mapping[str, Any]) -> int | None:
    clock = extra.get("clock")
    if clock is not None and type(clock) is not int:
        msg = f"the field 'clock' must be nanoseconds as an integer, not {clock!r:.100}"
        raise _InvalidEntity(msg)
    return clock


def _decode_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entity of an earlier version, of which no object can be made."""
    plain = value["entity"]
    if not isinstance(plain, dict) or plain.keys() & {"$call", "$state", "$new"}:
        return fields_of(_decode(value, "entity"))
    return {name: from_plain(item) for name, item in plain.items() if not name.startswith("$")}


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, _InvalidEntity) else f"{type(error).__name__}: {error}"
