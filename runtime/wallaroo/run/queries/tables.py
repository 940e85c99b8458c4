"""The states of an application as tables: entities as rows, in batches of Arrow."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import Application, StatePartition
from wallaroo.model.timing import KeyTime
from wallaroo.run.queries.annotations import annotated_kinds, narrowed
from wallaroo.run.queries.columns import column, distinct, settled
from wallaroo.run.queries.kinds import (
    NANOSECONDS,
    UNKNOWN,
    Kind,
    Map,
    Places,
    Record,
    Text,
    kind_of,
    record_of,
    united,
    with_defaults,
)
from wallaroo.run.queries.objects import attributes_of, default_of, is_plain, values_of
from wallaroo.run.queries.windows import window_columns, window_rows
from wallaroo.user_code.exceptions import describe_error

_BATCH = 10_000
"""Rows that are converted together; bounds the memory."""
_MISSING = object()
_VALUE = "value"
"""The column of entities that are not objects with attributes."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: Kind
    """A settled kind."""


class _Row(NamedTuple):
    fixed: tuple[Any, ...]
    """The key, and what the runtime knows about it."""
    kind: type
    attributes: Mapping[str, Any]

    def attribute(self, name: str) -> Any:
        """The attribute *name*, or what its class has instead."""
        found = self.attributes.get(name, _MISSING)
        return default_of(self.kind, name) if found is _MISSING else found


class StateTable:
    """The entities of one state as a table; used in two turns: `add` all, then read it.

    Only a batch of rows is in memory: rows wait in a file until the types of all are known.

    Args:
        application: The application.
        partition: The state.
        scratch: A file that does not exist yet.
    """

    def __init__(self, application: Application, partition: StatePartition, scratch: Path) -> None:
        self.rows = 0
        """How many there are."""
        self.problems: list[str] = []
        """Why entities are no rows."""
        self._partition = partition
        self._fixed = {"key": UNKNOWN, **_fixed_columns(application, partition)}
        self._key: Kind = UNKNOWN
        self._kinds: dict[type, Kind] = {}
        """The attributes of the rows of each class."""
        self._batch: list[_Row] = []
        self._scratch, self._pickles = scratch, application.serialization is None
        self._kept: list[list[_Row]] = []
        """Batches that cannot be pickled."""

    def add(self, key: Any, entity: Any, time: KeyTime | None) -> None:
        """Add the rows of an entity, whose key has *time*."""
        try:
            self._batch += self._rows_of(key, entity, time)
        except Exception as error:  # of user code
            told = f"state {self._partition.name!r}, key {key!r:.100}: {describe_error(error)}"
            self.problems.append(told)
        if len(self._batch) >= _BATCH:
            self._flush()

    def columns(self) -> list[Column]:
        """The columns, when all entities are added."""
        self._flush()
        fixed = self._fixed_parts()
        attributes = self._attributes
        known = distinct(part.name for part in fixed)
        names = [*known, *distinct(attributes, taken=["key", *known])]
        kinds = [*(part.kind for part in fixed), *attributes.values()]
        return [Column(name, settled(kind)) for name, kind in zip(names, kinds, strict=True)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, once.

        Raises:
            RuntimeFailure: A value does not fit its column.
        """
        columns = self.columns()
        attributes = list(self._attributes)
        for batch in self._read():
            values = [
                *self._fixed_values(batch),
                *([row.attribute(name) for row in batch] for name in attributes),
            ]
            arrays = [
                self._column(one, of_it, batch) for one, of_it in zip(columns, values, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, [one.name for one in columns])

    def _rows_of(self, key: Any, entity: Any, time: KeyTime | None) -> Iterable[_Row]:
        partition = self._partition
        if partition.windows is not None:
            found = list(window_rows(partition.windows, entity))
            return [_row((key, *fixed), value) for fixed, value in found]
        known = () if partition.timing is None else self._time(time)
        return [_row((key, *known), entity)]

    def _time(self, time: KeyTime | None) -> tuple[Any, ...]:
        """What the columns after the key have for an entity whose key has *time*."""
        timing = self._partition.timing
        assert timing is not None
        found = {} if time is None else timing.shown(time)
        values = {
            "key_time": None if time is None or time.latest is None else time.watermark,
            "key_expires": found.get("expires"),
            "key_timers": found.get("timers", {}),
        }
        return tuple(values[name] for name in list(self._fixed)[1:])

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        self.rows += len(batch)
        self._key = united([self._key, kind_of([row.fixed[0] for row in batch])])
        by_class: dict[type, list[Mapping[str, Any]]] = {}
        for row in batch:
            by_class.setdefault(row.kind, []).append(row.attributes)
        for kind, rows in by_class.items():
            found = record_of(kind, rows)
            self._kinds[kind] = united([self._kinds.get(kind, UNKNOWN), found])
        content = None
        if self._pickles:
            with suppress(Exception):  # of user code, too
                content = pickle.dumps([tuple(row) for row in batch], protocol=5)
        if content is None:
            self._kept.append(batch)
            return
        with self._scratch.open("ab") as file:
            file.write(content)

    def _read(self) -> Iterator[list[_Row]]:
        yield from self._kept
        if self._scratch.exists():
            with self._scratch.open("rb") as file:
                while file.peek(1):
                    yield [_Row(*row) for row in pickle.load(file)]
            self._scratch.unlink()

    def _fixed_parts(self) -> list[Column]:
        """The columns before the attributes: of keys with several parts, one for each."""
        keys = [Column("key", self._key)]
        if isinstance(self._key, Places):
            keys = [Column(f"key_{place}", of) for place, of in enumerate(self._key.places)]
        elif isinstance(self._key, Record) and self._key.fields:
            fields = with_defaults(self._key)
            assert isinstance(fields, Record)
            keys = [Column(f"key_{name}", of) for name, of in fields.fields.items()]
        return [*keys, *(Column(name, of) for name, of in list(self._fixed.items())[1:])]

    def _fixed_values(self, batch: list[_Row]) -> Iterator[list[Any]]:
        keys, *others = map(list, zip(*(row.fixed for row in batch), strict=True))
        if isinstance(self._key, Places):
            for place in range(len(self._key.places)):
                yield [None if key is None else key[place] for key in keys]
        elif isinstance(self._key, Record) and self._key.fields:
            rows = [None if key is None else attributes_of(key) for key in keys]
            yield from (values_of(self._key.kind, name, rows) for name in self._key.fields)
        else:
            yield keys
        yield from others

    @cached_property
    def _attributes(self) -> dict[str, Kind]:
        """The columns of attributes, when all entities are added: the annotated ones first."""
        found = {kind: with_defaults(of) for kind, of in self._kinds.items()}
        kinds: dict[str, Kind] = {}
        annotated: dict[str, Kind] = {}
        if self._partition.windows is None and (sample := self._sample()) is not None:
            annotated = annotated_kinds(sample.kind)
            if not found:
                found = {sample.kind: record_of(sample.kind, [sample.attributes])}
        for kind in self._kinds:
            annotated = annotated_kinds(kind) | annotated
        records = {kind: of for kind, of in found.items() if isinstance(of, Record)}
        for name in dict.fromkeys(chain(annotated, *(of.fields for of in records.values()))):
            parts = [
                of.fields[name] if name in of.fields else kind_of([default_of(kind, name)])
                for kind, of in records.items()
            ]
            kinds[name] = narrowed(annotated.get(name, UNKNOWN), united(parts))
        return kinds

    def _sample(self) -> _Row | None:
        """A new entity as a row; None if there is none."""
        try:
            return _row((), self._partition.new_entity())
        except (Exception, SystemExit):  # messages for it will become dead letters
            return None

    def _column(self, one: Column, values: list[Any], batch: list[_Row]) -> pa.Array:
        try:
            return column(one.kind, values)
        except Exception as error:
            for row, value in zip(batch, values, strict=True):
                try:
                    column(one.kind, [value])
                except Exception as told:
                    msg = (
                        f"state {self._partition.name!r}, key {row.fixed[0]!r:.100}: {one.name} "
                        f"cannot be a value of SQL: {value!r:.200} ({describe_error(told)})"
                    )
                    raise RuntimeFailure(msg) from told
            msg = f"state {self._partition.name!r}: {one.name}: {describe_error(error)}"
            raise RuntimeFailure(msg) from error


class _Other:
    """Stands for the class of what has no attributes."""


def _row(fixed: tuple[Any, ...], value: Any) -> _Row:
    kind: Any = type(value)
    if is_plain(kind):
        return _Row(fixed, kind, attributes_of(value))
    return _Row(fixed, _Other, {_VALUE: value})


def _fixed_columns(application: Application, partition: StatePartition) -> Mapping[str, Kind]:
    """The columns between the key and the attributes."""
    if partition.windows is not None:
        return window_columns(partition.windows)
    timing = partition.timing
    if timing is None:
        return {}
    has_timers = application.steps_with_timers(partition)
    return {
        "key_time": NANOSECONDS,
        **({} if timing.ttl_ns is None else {"key_expires": NANOSECONDS}),
        **({"key_timers": Map(Text(), NANOSECONDS)} if has_timers else {}),
    }
