"""A check that Arrow keeps values exactly: it cuts fractions, times and fields silently.

A value may be rounded to the resolution of its type: a float to `float`, a time to milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_RESOLUTIONS = {
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "ns": timedelta(microseconds=1),
}
_PLAIN = (
    (pa.types.is_integer, {int, type(None)}),
    (pa.types.is_float64, {float, type(None)}),
    (pa.types.is_boolean, {bool, type(None)}),
    (pa.types.is_string, {str, type(None)}),
    (pa.types.is_binary, {bytes, type(None)}),
    (pa.types.is_date, {date, type(None)}),
    (pa.types.is_decimal, {Decimal, type(None)}),
)
"""Kinds of types, and the classes whose values they keep or refuse."""


def keeps_all(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Whether a column of type *kind* keeps all *values* that it takes, by their classes alone.

    Example:
        >>> keeps_all([1, None], pa.int64()), keeps_all([1, 2.5], pa.int64())
        (True, False)
    """
    classes = set(map(type, values))
    if pa.types.is_timestamp(kind) and classes <= {datetime, type(None)}:
        has_zone = kind.tz is not None
        return all(one is None or (one.tzinfo is not None) == has_zone for one in values)
    return any(is_kind(kind) and classes <= kept for is_kind, kept in _PLAIN)


def is_kept(  # noqa: PLR0911 - one for each case
    value: Any, kept: Any, kind: pa.DataType, *, declared: bool = False
) -> bool:
    """Whether *kept*, which a column of type *kind* has for *value*, is the same.

    Values of other classes than Python's own, such as NumPy's, count as kept.

    Args:
        value: What the column was given.
        kept: What it has.
        kind: Its type.
        declared: Whether the application has chosen the type: an integer can then be a time.

    Example:
        >>> is_kept(2.5, 2, pa.int64()), is_kept(2.5, 2.5, pa.float64())
        (False, True)
        >>> is_kept({"a": 1, "b": 2}, {"a": 1}, pa.struct({"a": pa.int64()}))
        False
    """
    match value:
        case None:
            return kept is None
        case bool():
            return kept is value
        case float():
            return _is_same_float(value, kept)
        case int() if declared and pa.types.is_temporal(kind):
            return True
        case int() | Decimal() | str() | bytes():
            return not isinstance(kept, bool) and bool(kept == value)
        case datetime() | date() | time() | timedelta():
            return _is_same_time(value, kept, kind)
        case Mapping() if pa.types.is_map(kind):
            return is_kept([*value.items()], kept, kind, declared=declared)
        case Mapping() if isinstance(kept, Mapping):
            return all(
                name in kept and is_kept(one, kept[name], kind.field(name).type, declared=declared)
                for name, one in value.items()
            )
        case list() | tuple() if isinstance(kept, list) and len(kept) == len(value):
            return _are_kept(value, kept, kind, declared=declared)
        case list() | tuple() | Mapping():
            return False
    return True


def _are_kept(values: Sequence[Any], kept: list[Any], kind: pa.DataType, *, declared: bool) -> bool:
    if pa.types.is_map(kind):
        parts = ((kind.key_type, 0), (kind.item_type, 1))
        return all(
            is_kept(one[place], other[place], part, declared=declared)
            for one, other in zip(values, kept, strict=True)
            for part, place in parts
        )
    return all(
        is_kept(one, other, kind.value_type, declared=declared)
        for one, other in zip(values, kept, strict=True)
    )


def is_of_python(value: Any) -> bool:
    """Whether *value* is of a class of Python's own.

    Example:
        >>> is_of_python(1), is_of_python(date(2026, 1, 1)), is_of_python(pa.scalar(1))
        (True, True, False)
    """
    return type(value).__module__ in {"builtins", "datetime", "decimal"}


def _is_same_float(value: float, kept: Any) -> bool:
    if isinstance(kept, float):
        return math.isfinite(kept) == math.isfinite(value)  # else it may be rounded
    return not isinstance(kept, bool) and bool(kept == value)


def _is_same_time(value: Any, kept: Any, kind: pa.DataType) -> bool:
    if isinstance(value, time):
        if value.tzinfo is not None or not isinstance(kept, time):
            return False
        value, kept = (datetime.combine(date.min, one) for one in (value, kept))
    elif isinstance(value, date) and isinstance(kept, date):
        value, kept = (_moment(one) for one in (value, kept))
        if (value.tzinfo is None) != (kept.tzinfo is None):
            return False
    elif not (isinstance(value, timedelta) and isinstance(kept, timedelta)):
        return False
    return bool(abs(value - kept) < _RESOLUTIONS[getattr(kind, "unit", "us")])


def _moment(one: date) -> datetime:
    """*one*, or the start of it if it is a day."""
    return one if isinstance(one, datetime) else datetime.combine(one, time())
