"""State entities in files: written by an export; read, checked and packed by an import."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from wallaroo.dataflow.entities import Changes, EntityCache
from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.program import Program, codecs_of
from wallaroo.errors import UsageError
from wallaroo.run.state.classes import EntityShape
from wallaroo.run.state.json_codec import from_plain
from wallaroo.run.state.saved import told
from wallaroo.system.printable import printable

Form = Literal["json", "pickle"]
_FIELDS = ("state", "key", "entity")
_DUE = "an object with state, key and entity is due"
_PICKLED = pickle.PROTO
"""How what `wallaroo state export --format pickle` wrote begins."""
_SHOWN_BYTES = 60
_AT_ONCE = 20_000
"""Entities that are packed together: what is in memory at a time."""


class ImportedEntity(NamedTuple):
    """An entity as a file has it."""

    place: str
    """Where in the file it is, for people."""
    state: str
    """Name of its state partition."""
    key: Any
    entity: Any


def written_entity(state: str, key: Any, entity: Any, form: Form) -> bytes:
    """An entity as an export has it."""
    if form == "pickle":
        return pickle.dumps(((state, key), entity), protocol=5)
    line = json.dumps(told(state, key, entity), ensure_ascii=False)
    return f"{line}\n".encode("utf-8", "surrogatepass")


def read_entities(file: Path, form: Form, name: str) -> Iterator[ImportedEntity]:
    """The entities that `wallaroo state export` wrote to *file*, which people know as *name*.

    Raises:
        UsageError: Something else is in it; the message tells where.
    """
    place = name
    try:
        with file.open("rb") as opened:
            number, unit = 0, "line" if form == "json" else "entity"
            read = _read_line if form == "json" else _read_pickle
            while opened.peek(1):
                number += 1
                place = f"{name}, {unit} {number}"
                (state, key), entity = read(opened)
                yield ImportedEntity(place, state, key, entity)
    except Exception as error:  # whatever unpickling runs may raise anything
        msg = f"{place}: this is no entity of an export as {form}: {_told(error)}"
        raise UsageError(msg) from error


class Packer:
    """Packs entities as what is to be appended to the logs of buckets.

    Args:
        program: The application whose state they go into.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._cache = EntityCache([p.name for p in program.partitions], codecs_of(program))
        self._moulds: dict[str, EntityShape] = {}
        self.keys: set[tuple[str, Any]] = set()
        """State and key of each entity that was packed."""

    def pack(self, entities: Iterable[ImportedEntity]) -> Iterator[list[Packed]]:
        """What goes to each log that takes some of *entities*, batch by batch.

        Raises:
            UsageError: An entity does not fit the application; the message tells which, and why.
        """
        batch: dict[tuple[int, int], Changes] = {}
        held = 0
        partitions = len(self.program.partitions)
        for carried in entities:
            number, bucket = self._checked(carried)
            where = self.program.levels.level(number), bucket
            if where not in batch:
                batch[where] = Changes.none(partitions)
            batch[where].changed[number][carried.key] = carried.entity
            held += 1
            if held == _AT_ONCE:
                yield self._records(batch)
                batch, held = {}, 0
        if batch:
            yield self._records(batch)

    def _records(self, batch: dict[tuple[int, int], Changes]) -> list[Packed]:
        return [
            Packed(*where, self._cache.record(changes.changed, changes.forgotten))
            for where, changes in batch.items()
        ]

    def _checked(self, carried: ImportedEntity) -> tuple[int, int]:
        """Number of the state partition of an entity that fits, and its bucket."""
        place, name, key, entity = carried
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
            if name not in self._moulds:
                self._moulds[name] = EntityShape(partition.new_entity())
            if not partition.accepts(key):
                problem = "the key is not among those that the state lists"
            elif (name, key) in self.keys:
                problem = "an entity of this key came before"
            else:
                problem = self._moulds[name].problem_with(entity)
        except Exception as error:  # user code raised, or the key cannot be one
            problem = _told(error)
        if problem is not None:
            msg = f"{place}: state {name!r}, key {key!r}: {problem}"
            raise UsageError(msg)
        self.keys.add((name, key))
        return number, bucket


class _Misshapen(ValueError):
    """What is in a file is no entity; the message tells what is wrong with it."""


def _read_line(file: BinaryIO) -> tuple[tuple[str, Any], Any]:
    line = file.readline()
    if line.startswith(_PICKLED):
        msg = "it is pickled: give --format pickle"
        raise _Misshapen(msg)
    try:
        told = json.loads(line.decode("utf-8", "surrogatepass"))
    except json.JSONDecodeError as error:
        msg = f"it is no JSON: {error.msg} at column {error.colno}"
        raise _Misshapen(msg) from error
    except UnicodeDecodeError as error:
        msg = f"it is no UTF-8: {error.reason} at byte {error.start}"
        raise _Misshapen(msg) from error
    if not isinstance(told, dict):
        msg = f"{_DUE}, and this is {printable(line[:_SHOWN_BYTES].decode('utf-8', 'replace'))}"
        raise _Misshapen(msg)
    for name in _FIELDS:
        if name not in told:
            msg = f"it has no field {name!r}: {_DUE}"
            raise _Misshapen(msg)
    if not isinstance(told["state"], str):
        msg = f"its field 'state' is the name of a state, and this is {told['state']!r}"
        raise _Misshapen(msg)
    return (told["state"], _value(told, "key")), _value(told, "entity")


def _value(told: Mapping[str, Any], name: str) -> Any:
    try:
        return from_plain(told[name])
    except Exception as error:  # a class that it names may raise anything
        msg = f"its field {name!r} tells of no value: {_told(error)}"
        raise _Misshapen(msg) from error


def _read_pickle(file: BinaryIO) -> tuple[tuple[str, Any], Any]:
    start = file.peek(1)[:1]  # type: ignore[attr-defined]
    if start == b"{":
        msg = "it is JSON: leave out --format pickle"
        raise _Misshapen(msg)
    pair = pickle.load(file)
    match pair:
        case ((str(state), key), entity):
            return (state, key), entity
    msg = f"((state, key), entity) is due, and this is {printable(repr(pair)[:_SHOWN_BYTES])}"
    raise _Misshapen(msg)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, _Misshapen) else f"{type(error).__name__}: {error}"
