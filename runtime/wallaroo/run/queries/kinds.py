"""Kinds of columns: what all values of a column have in common, found from the values.

The kind of a column is that of its values, however they are divided into batches: `kind_of` finds
it for one batch, and `united` for several. Values that have nothing else in common are JSON text.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from wallaroo.run.queries.objects import attributes_of, default_of, is_plain

_LARGEST_BIGINT, _LARGEST = 2**63 - 1, 10**38 - 1
_EXACT = 2**53
"""Up to here, every integer is a float."""
DIGITS = 38
"""Of the longest decimal number."""
_DEPTH = 5
"""Containers within one another; what is deeper is JSON text."""
_LONGEST_TUPLE = 32
_SEQUENCES = (list, tuple, set, frozenset, deque)
_MAPPINGS = (dict, defaultdict, OrderedDict, Counter)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Simple:
    """One of the types that need no parameters; `unknown` has no value but None."""

    name: Literal[
        "unknown",
        "bool",
        "float",
        "bytes",
        "date",
        "time",
        "datetime",
        "instant",
        "nanoseconds",
        "duration",
        "json",
    ]


UNKNOWN, BOOL, FLOAT, BYTES = Simple("unknown"), Simple("bool"), Simple("float"), Simple("bytes")
DATE, TIME, DURATION, JSON = Simple("date"), Simple("time"), Simple("duration"), Simple("json")
DATETIME = Simple("datetime")
"""Without a time zone."""
INSTANT = Simple("instant")
"""With a time zone."""
NANOSECONDS = Simple("nanoseconds")
"""Integers that are nanoseconds since the Unix epoch."""


@dataclass(frozen=True)
class Int:
    """Integers."""

    largest: int = 0
    """The largest of them, without its sign."""

    @property
    def is_bigint(self) -> bool:
        """Whether all of them take 64 bits."""
        return self.largest <= _LARGEST_BIGINT


@dataclass(frozen=True)
class Number:
    """Decimal numbers."""

    digits: int
    """Digits before the point."""
    scale: int
    """Digits after it."""


@dataclass(frozen=True)
class Text:
    """Text, or values of a class that a text stands for: members of an enumeration, or UUIDs."""

    kind: type = str


@dataclass(frozen=True)
class Items:
    """Lists, tuples, sets and deques."""

    item: Kind


@dataclass(frozen=True)
class Places:
    """Tuples of one length, whose places differ: records, unless `as_items` succeeds."""

    places: tuple[Kind, ...]

    def as_items(self) -> Items:
        """The kind of the same tuples as lists."""
        return Items(united(self.places))


@dataclass(frozen=True)
class Map:
    """Dictionaries."""

    key: Kind
    value: Kind


@dataclass(frozen=True)
class Record:
    """Objects of one class."""

    kind: type
    fields: Mapping[str, Kind]
    partial: frozenset[str] = frozenset()
    """Fields that some of the objects lack."""


Kind = Simple | Int | Number | Text | Items | Places | Map | Record
_KEYS = (Int, Text)
_SIMPLE: Mapping[type, Simple] = {
    bool: BOOL,
    float: FLOAT,
    bytes: BYTES,
    bytearray: BYTES,
    datetime.date: DATE,
}


def kind_of(values: Iterable[Any], within: tuple[type, ...] = ()) -> Kind:
    """The kind of a column of *values*, of which any may be None.

    Args:
        values: The values.
        within: Classes of what they are parts of.

    Example:
        >>> kind_of([1, None, -7]), kind_of([1, 0.5]), kind_of([1, "a"])
        (Int(largest=7), Simple(name='float'), Simple(name='json'))
        >>> kind_of([{"a": [1]}, {}])
        Map(key=Text(kind=<class 'str'>), value=Items(item=Int(largest=1)))
    """
    values = values if isinstance(values, list) else list(values)
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1:
        (kind,) = kinds
        return _of_class(kind, [value for value in values if value is not None], within)
    by_class: dict[type, list[Any]] = {kind: [] for kind in kinds}
    for value in values:
        if value is not None:
            by_class[type(value)].append(value)
    return united(_of_class(kind, of_it, within) for kind, of_it in by_class.items())


def united(kinds: Iterable[Kind]) -> Kind:
    """The kind of columns of *kinds* as one column."""
    found: Kind = UNKNOWN
    for kind in kinds:
        found = _united(found, kind)
    return found


def has_json(kind: Kind) -> bool:
    """Whether *kind* is JSON text, or has such a part."""
    match kind:
        case Items(item):
            return has_json(item)
        case Places(places):
            return any(map(has_json, places))
        case Map(key, value):
            return has_json(key) or has_json(value)
        case Record(_, fields):
            return any(map(has_json, fields.values()))
    return kind == JSON


def with_defaults(kind: Kind) -> Kind:
    """*kind*, with what classes have in place of the fields that some of their objects lack."""
    match kind:
        case Items(item):
            return Items(with_defaults(item))
        case Places(places):
            return Places(tuple(map(with_defaults, places)))
        case Map(key, value):
            return Map(key, with_defaults(value))
        case Record(of, fields, partial):
            found = {
                name: united([with_defaults(field), kind_of([default_of(of, name)], (of,))])
                if name in partial
                else with_defaults(field)
                for name, field in fields.items()
            }
            return Record(of, found)
    return kind


def _of_class(  # noqa: PLR0911  (one for each kind)
    kind: Any, values: list[Any], within: tuple[type, ...]
) -> Kind:
    """The kind of *values*, which are all of the class *kind*."""
    if kind in _SEQUENCES and len(within) < _DEPTH:
        return _of_sequences(kind, values, within)
    if kind in _MAPPINGS and len(within) < _DEPTH:
        key = kind_of(chain.from_iterable(values))
        value = kind_of(chain.from_iterable(one.values() for one in values), (*within, dict))
        is_key = isinstance(key, _KEYS) and not any(None in one for one in values)
        return Map(key, value) if is_key or not any(values) else JSON
    if kind is int:
        largest = max(map(abs, values))
        return Int(largest) if largest <= _LARGEST else JSON
    if kind is str:
        return Text() if is_unicode("".join(values)) else JSON
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _LIMITED:
        return _LIMITED[kind](values)
    if kind is uuid.UUID or issubclass(kind, enum.Enum):
        return Text(kind) if all(text_of(value) is not None for value in values) else JSON
    if kind.__module__ == "numpy":
        plain = plain_numbers(values)
        return JSON if any(type(value) is kind for value in plain) else kind_of(plain, within)
    if kind in within or len(within) >= _DEPTH or not is_plain(kind):
        return JSON
    return record_of(kind, list(map(attributes_of, values)), within)


def record_of(kind: type, rows: Sequence[Mapping[str, Any]], within: tuple[type, ...] = ()) -> Kind:
    """The kind of objects of *kind* with the attributes in *rows*."""
    counts = Counter(chain.from_iterable(rows))
    fields: dict[str, Kind] = {}
    for name in counts:
        values = [row[name] for row in rows if name in row]
        fields[name] = kind_of(values, (*within, kind))
    partial = frozenset(name for name, count in counts.items() if count < len(rows))
    return Record(kind, fields, partial)


def text_of(value: Any) -> str | None:
    """The text that stands for *value*; None for combinations of flags without a name."""
    return value.name if isinstance(value, enum.Enum) else str(value)


def plain_numbers(values: Sequence[Any]) -> Sequence[Any]:
    """*values*, with those of Python for scalars of numpy."""
    kinds = set(map(type, values))
    if not any(kind.__module__ == "numpy" for kind in kinds):
        return values
    return list(map(_plain_number, values))


def _plain_number(value: Any) -> Any:
    """The number, truth value or text that is a scalar of numpy; *value* itself if none is."""
    numpy = sys.modules.get("numpy")
    is_scalar = numpy is not None and isinstance(value, numpy.generic)
    return value.item() if is_scalar and value.dtype.char in "?bhilqBHILQefdSU" else value


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can encode *text*."""
    try:
        text.encode()
    except UnicodeEncodeError:  # it has surrogates
        return False
    return True


def _of_sequences(kind: type, values: list[Any], within: tuple[type, ...]) -> Kind:
    inner = (*within, list)
    lengths = set(map(len, values))
    if kind is tuple and len(lengths) == 1 and 0 < max(lengths) <= _LONGEST_TUPLE:
        return Places(tuple(kind_of(list(place), inner) for place in zip(*values, strict=True)))
    return Items(kind_of(chain.from_iterable(values), inner))


def _of_datetimes(values: list[datetime.datetime]) -> Kind:
    try:
        aware = {value.utcoffset() is not None for value in values}
    except Exception:  # of a time zone of the application
        return JSON
    if len(aware) > 1:
        return JSON
    return INSTANT if aware.pop() else DATETIME


def _of_times(values: list[datetime.time]) -> Kind:
    return TIME if all(value.tzinfo is None for value in values) else JSON


def _of_durations(values: list[datetime.timedelta]) -> Kind:
    longest = max(abs(value // MICROSECOND) for value in values)
    return DURATION if longest <= _LARGEST_BIGINT else JSON


def _of_decimals(values: list[decimal.Decimal]) -> Kind:
    digits = scale = 0
    for value in values:
        _, figures, exponent = value.as_tuple()
        if not isinstance(exponent, int):  # infinite, or no number
            return JSON
        digits = max(digits, len(figures) + exponent if value else 0)
        scale = max(scale, -exponent)
    return _number(digits, scale)


_LIMITED: Mapping[type, Callable[[list[Any]], Kind]] = {
    datetime.datetime: _of_datetimes,
    datetime.time: _of_times,
    datetime.timedelta: _of_durations,
    decimal.Decimal: _of_decimals,
}


def _number(digits: int, scale: int) -> Kind:
    return Number(digits, scale) if digits + scale <= DIGITS else JSON


def _united(one: Kind, other: Kind) -> Kind:  # noqa: PLR0911  (one for each pair)
    if one in (UNKNOWN, other):
        return other
    if other == UNKNOWN:
        return one
    match one, other:
        case Int(a), Int(b):
            return Int(max(a, b))
        case (Simple("float"), Int(largest)) | (Int(largest), Simple("float")):
            return FLOAT if largest <= _EXACT else JSON
        case Number(digits, scale), Number(more, finer):
            return _number(max(digits, more), max(scale, finer))
        case (Number(digits, scale), Int(largest)) | (Int(largest), Number(digits, scale)):
            return _number(max(digits, len(str(largest))), scale)
        case Items(a), Items(b):
            return Items(_united(a, b))
        case Places(a), Places(b) if len(a) == len(b):
            return Places(tuple(map(_united, a, b)))
        case (Places(), Places() | Items()) | (Items(), Places()):
            both = (k.as_items() if isinstance(k, Places) else k for k in (one, other))
            return united(both)
        case Map(key, value), Map(other_key, other_value):
            keys = _united(key, other_key)
            return Map(keys, _united(value, other_value)) if keys != JSON else JSON
        case Record(kind, fields), Record(other_kind, others) if kind is other_kind:
            names = dict.fromkeys([*fields, *others])
            partial = one.partial | other.partial | (fields.keys() ^ others.keys())
            merged = {n: _united(fields.get(n, UNKNOWN), others.get(n, UNKNOWN)) for n in names}
            return replace(one, fields=merged, partial=frozenset(partial))
    return JSON
