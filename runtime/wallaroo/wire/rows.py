"""Rows of tables as messages and outputs: JSON objects, in which other values have a tag.

A value that JSON has not is an object with one name that begins with `$`, such as
`{"$date": "2026-07-01"}`; an object that looks like that is itself tagged with `$object`.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_TO_TEXT: dict[type, tuple[str, Callable[[Any], Any]]] = {
    datetime: ("$datetime", datetime.isoformat),  # before `date`, of which it is a subclass
    date: ("$date", date.isoformat),
    time: ("$time", time.isoformat),
    timedelta: ("$microseconds", lambda value: value // timedelta(microseconds=1)),
    Decimal: ("$decimal", str),
    UUID: ("$uuid", str),
    bytes: ("$bytes", lambda value: base64.b64encode(value).decode()),
}
_FROM_TEXT: dict[str, Callable[[Any], Any]] = {
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$microseconds": lambda value: timedelta(microseconds=value),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$bytes": lambda value: base64.b64decode(value, validate=True),
    "$object": lambda value: value,
    "$malformed": lambda problem: _fail(problem),  # noqa: PLW0108  (is below)
}


def encoding_rows(encode: Callable[[Any], Any]) -> Callable[[Any], bytes | None]:
    """An encoder of packed rows, from one of mappings."""

    @functools.wraps(encode)
    def encode_row(output: Any) -> bytes | None:
        row = encode(output)
        return None if row is None else packed_row(row)

    return encode_row


def decoding_rows(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder of packed rows, from one of rows; it takes rows themselves as well."""

    @functools.wraps(decode)
    def decode_row(payload: bytes | Mapping[str, Any]) -> Any:
        return decode(payload if isinstance(payload, Mapping) else unpacked_row(payload))

    return decode_row


def packed_row(row: Mapping[str, Any]) -> bytes:
    """Return *row*, values by the names of columns, as bytes.

    Values may be None, numbers, texts, bytes, dates, times, durations, `Decimal`, `UUID`, and
    lists and mappings of these.

    Raises:
        TypeError: *row* is not a mapping, a name is not a string, or a value is of another class;
            the message names the column.

    Example:
        >>> packed_row({"item": "nut", "count": 3, "day": date(2026, 7, 1)})
        b'{"item":"nut","count":3,"day":{"$date":"2026-07-01"}}'
        >>> packed_row({"item": object})
        Traceback (most recent call last):
            ...
        TypeError: column 'item' is of class type, which a row cannot hold
    """
    if not isinstance(row, Mapping):
        msg = f"a row is a {type(row).__name__}; expected a dict from names of columns to values"
        raise TypeError(msg)
    plain = {}
    for name, value in row.items():
        if not isinstance(name, str):
            msg = f"a column has the name {name!r}; expected a text"
            raise TypeError(msg)
        plain[name] = _plain(value, name)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()


def unpacked_row(data: bytes) -> dict[str, Any]:
    """Return the row that `packed_row` has packed.

    Raises:
        ValueError: It has packed none.

    Example:
        >>> unpacked_row(b'{"item":"nut","day":{"$date":"2026-07-01"}}')
        {'item': 'nut', 'day': datetime.date(2026, 7, 1)}
    """
    row = json.loads(data)
    if not isinstance(row, dict):
        msg = f"{data[:100]!r} is not a row"
        raise ValueError(msg)  # noqa: TRY004  (it is data, not an argument)
    return {name: _value(value) for name, value in row.items()}


def malformed_row(problem: str) -> bytes:
    """What `unpacked_row` raises *problem* for.

    Example:
        >>> unpacked_row(malformed_row("line 7 has 2 columns"))
        Traceback (most recent call last):
            ...
        ValueError: line 7 has 2 columns
    """
    return json.dumps({"row": {"$malformed": problem}}, ensure_ascii=False).encode()


def _fail(problem: str) -> None:
    raise ValueError(problem)


def _plain(value: Any, column: str) -> Any:
    """*value* as JSON has it."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime"):  # of pandas
        value = value.to_pydatetime(warn=False)
    for cls, (tag, to_text) in _TO_TEXT.items():
        if isinstance(value, cls):
            return {tag: to_text(value)}
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                msg = f"column {column!r} has a mapping with the name {name!r}; expected a text"
                raise TypeError(msg)
        inner = {name: _plain(one, column) for name, one in value.items()}
        return {"$object": inner} if _is_tagged(inner) else inner
    if isinstance(value, (list, tuple)):
        return [_plain(one, column) for one in value]
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist(), column)
    if isinstance(value, (bytearray, memoryview)):
        return _plain(bytes(value), column)
    msg = f"column {column!r} is of class {type(value).__name__}, which a row cannot hold"
    raise TypeError(msg)


def _value(plain: Any) -> Any:
    """What `_plain` was made of."""
    if isinstance(plain, list):
        return [_value(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    if not _is_tagged(plain):
        return {name: _value(one) for name, one in plain.items()}
    ((tag, inner),) = plain.items()
    if tag == "$object":
        return {name: _value(one) for name, one in inner.items()}
    if (made := _FROM_TEXT.get(tag)) is None:
        msg = f"a row has a value of the unknown kind {tag!r}"
        raise ValueError(msg)
    return made(inner)


def _is_tagged(plain: Mapping[str, Any]) -> bool:
    return len(plain) == 1 and next(iter(plain)).startswith("$")
