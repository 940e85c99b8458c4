"""Columns of Python values as columns of Arrow, and as types of SQL."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from wallaroo.dataflow.json_codec import to_plain
from wallaroo.run.queries.kinds import (
    BOOL,
    BYTES,
    DATE,
    DATETIME,
    DIGITS,
    DURATION,
    FLOAT,
    INSTANT,
    JSON,
    MICROSECOND,
    NANOSECONDS,
    TIME,
    UNKNOWN,
    Int,
    Items,
    Kind,
    Map,
    Number,
    Places,
    Record,
    Simple,
    Text,
    has_json,
    is_unicode,
    plain_numbers,
    text_of,
    with_defaults,
)
from wallaroo.run.queries.objects import attributes_of, values_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT = Context(prec=2 * DIGITS)
_SIMPLE: Mapping[Simple, tuple[str, pa.DataType]] = {
    BOOL: ("BOOLEAN", pa.bool_()),
    FLOAT: ("DOUBLE", pa.float64()),
    BYTES: ("BLOB", pa.binary()),
    DATE: ("DATE", pa.date32()),
    TIME: ("TIME", pa.time64("us")),
    DATETIME: ("TIMESTAMP", pa.timestamp("us")),
    INSTANT: ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
    NANOSECONDS: ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
    DURATION: ("INTERVAL", pa.duration("us")),
    JSON: ("JSON", pa.string()),
}


def settled(kind: Kind) -> Kind:
    """The kind of a column of which no more values follow: one that has a type."""
    return _settled(with_defaults(kind))


def sql_type(kind: Kind) -> str:  # noqa: PLR0911  (one for each kind)
    """The type of a settled column in DuckDB.

    Example:
        >>> from wallaroo.run.queries.kinds import kind_of
        >>> sql_type(settled(kind_of([{"ada": [1.5]}]))), sql_type(settled(kind_of([(1, "a")])))
        ('MAP(VARCHAR, DOUBLE[])', 'STRUCT("_0" BIGINT, "_1" VARCHAR)')
    """
    match kind:
        case Simple():
            return _SIMPLE[kind][0]
        case Int():
            return "BIGINT" if kind.is_bigint else f"DECIMAL({DIGITS},0)"
        case Number(_, scale):
            return f"DECIMAL({DIGITS},{scale})"
        case Text():
            return "VARCHAR"
        case Items(item):
            return f"{sql_type(item)}[]"
        case Map(key, value):
            return f"MAP({sql_type(key)}, {sql_type(value)})"
    fields = (f"{quoted(name)} {sql_type(field)}" for name, field in fields_of(kind).items())
    return f"STRUCT({', '.join(fields)})"


def fields_of(kind: Places | Record) -> Mapping[str, Kind]:
    """The fields of a record by the names that they have in SQL."""
    if isinstance(kind, Places):
        return {f"_{place}": of_place for place, of_place in enumerate(kind.places)}
    return dict(zip(distinct(kind.fields), kind.fields.values(), strict=True))


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """*names*, each with as many `_` behind it as it takes to differ from *taken* and from others.

    SQL does not distinguish capital letters.

    Example:
        >>> distinct(["total", "key", "Total"], taken=["key"])
        ['total', 'key_', 'Total_']
    """
    used = {name.casefold() for name in taken}
    found = []
    for name in names:
        legal = name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0") or "_"
        while legal.casefold() in used:
            legal += "_"
        used.add(legal.casefold())
        found.append(legal)
    return found


def quoted(name: str) -> str:
    """*name* as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def column(kind: Kind, values: Sequence[Any]) -> pa.Array:  # noqa: PLR0911  (likewise)
    """*values* as a column of a settled *kind*, which fits them.

    Example:
        >>> column(Items(Int(2)), [[1, 2], None]).to_pylist()
        [[1, 2], None]
    """
    match kind:
        case Simple():
            return _simple(kind, values)
        case Int():
            of_int = pa.int64() if kind.is_bigint else pa.decimal128(DIGITS, 0)
            return pa.array(plain_numbers(values), of_int)
        case Number(_, scale):
            exponent = Decimal((0, (1,), -scale))
            numbers = [
                value if value is None else Decimal(value).quantize(exponent, context=_EXACT)
                for value in plain_numbers(values)
            ]
            return pa.array(numbers, pa.decimal128(DIGITS, scale))
        case Text(of):
            texts = values if of is str else [v if v is None else text_of(v) for v in values]
            return pa.array(plain_numbers(texts), pa.string())
        case Items(item):
            lists = [value if value is None else _listed(value) for value in values]
            return pa.ListArray.from_arrays(_offsets(lists), column(item, _flat(lists)))
        case Map(key, item):
            keys = column(key, _flat(values))
            items = column(item, _flat(v if v is None else v.values() for v in values))
            return pa.MapArray.from_arrays(_offsets(values), keys, items)
        case Places(places):
            parts = [
                column(of_place, [value if value is None else value[place] for value in values])
                for place, of_place in enumerate(places)
            ]
            return _structs(kind, parts, values)
    rows = [value if value is None else attributes_of(value) for value in values]
    parts = [column(field, values_of(kind.kind, name, rows)) for name, field in kind.fields.items()]
    return _structs(kind, parts, values)


def json_text(value: Any) -> str:
    r"""*value* as JSON, marked as in an export of the state.

    Example:
        >>> json_text((1, "é")), json_text("\ud800")
        ('{"$tuple": [1, "é"]}', '{"$text": "\\\\ud800"}')
    """
    try:
        plain = to_plain(value)
        text = json.dumps(plain, ensure_ascii=False)
        if not text.isascii() and not is_unicode(text):
            text = json.dumps(_with_escapes(plain), ensure_ascii=False)
    except RecursionError:
        text = json.dumps({"$repr": f"a {type(value).__qualname__} that is nested too deep"})
    return text


def _settled(kind: Kind) -> Kind:  # noqa: PLR0911  (likewise)
    match kind:
        case Items(item):
            return Items(_settled(item))
        case Map(key, value):
            return Map(Text() if key == UNKNOWN else key, _settled(value))
        case Places():
            items = kind.as_items()
            if not has_json(items):
                return _settled(items)
            return Places(tuple(map(_settled, kind.places)))
        case Record(_, fields) if fields:
            return replace(kind, fields={name: _settled(field) for name, field in fields.items()})
        case Record():
            return JSON
    return JSON if kind == UNKNOWN else kind


def _simple(kind: Simple, values: Sequence[Any]) -> pa.Array:
    if kind == JSON:
        values = [value if value is None else json_text(value) for value in values]
    elif kind == FLOAT:
        values = [value if value is None else float(value) for value in values]
    elif kind == BOOL:
        values = plain_numbers(values)
    elif kind in _AS_MICROSECONDS:
        count = _AS_MICROSECONDS[kind]
        counts = pa.array([v if v is None else count(v) for v in values], pa.int64())
        return counts.cast(_SIMPLE[kind][1])
    return pa.array(values, _SIMPLE[kind][1])


_AS_MICROSECONDS: Mapping[Simple, Callable[[Any], int]] = {
    INSTANT: lambda value: (value - _EPOCH) // MICROSECOND,
    NANOSECONDS: lambda value: value // 1000,
    DURATION: lambda value: value // MICROSECOND,
}


def _structs(
    kind: Places | Record, parts: Sequence[pa.Array], values: Sequence[Any]
) -> pa.StructArray:
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, list(fields_of(kind)), mask=missing)


def _listed(value: Any) -> Any:
    """The items of a sequence; those of a set in their order, if they have one."""
    if not isinstance(value, set | frozenset):
        return value
    try:
        return sorted(value)
    except Exception:  # of classes of the application, too
        return list(value)


def _offsets(values: Sequence[Any]) -> pa.Array:
    ends = accumulate((0 if value is None else len(value) for value in values), initial=0)
    starts = [
        None if value is None else start for value, start in zip([*values, ()], ends, strict=True)
    ]
    return pa.array(starts, pa.int32())


def _flat(values: Iterable[Any]) -> list[Any]:
    return list(chain.from_iterable(value for value in values if value is not None))


def _with_escapes(plain: Any) -> Any:
    """Plain JSON values without texts that are not Unicode, which are escaped and marked."""
    if isinstance(plain, str):
        escaped = plain.encode("unicode_escape").decode()
        return plain if is_unicode(plain) else {"$text": escaped}
    if isinstance(plain, list):
        return list(map(_with_escapes, plain))
    if not isinstance(plain, dict):
        return plain
    if all(map(is_unicode, plain)):
        return {key: _with_escapes(item) for key, item in plain.items()}
    return {"$dict": [[_with_escapes(part) for part in pair] for pair in plain.items()]}
