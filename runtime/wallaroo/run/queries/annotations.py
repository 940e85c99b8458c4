"""Kinds of the columns of a state by the annotations of its class."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from wallaroo.run.queries.kinds import (
    BOOL,
    BYTES,
    DATE,
    DURATION,
    FLOAT,
    TIME,
    UNKNOWN,
    Int,
    Items,
    Kind,
    Map,
    Number,
    Text,
    has_json,
    united,
)

_KINDS: Mapping[Any, Kind] = {
    bool: BOOL,
    int: Int(),
    float: FLOAT,
    str: Text(),
    bytes: BYTES,
    bytearray: BYTES,
    datetime.date: DATE,
    datetime.time: TIME,
    datetime.timedelta: DURATION,
    decimal.Decimal: Number(0, 0),
    uuid.UUID: Text(uuid.UUID),
}
_SEQUENCES = (
    *(list, set, frozenset, collections.deque, collections.abc.Sequence),
    *(collections.abc.Iterable, collections.abc.Collection, collections.abc.Set),
    *(collections.abc.MutableSequence, collections.abc.MutableSet),
)
_MAPPINGS = (
    *(dict, collections.defaultdict, collections.OrderedDict),
    *(collections.abc.Mapping, collections.abc.MutableMapping),
)


def annotated_kinds(kind: type) -> dict[str, Kind]:
    """The kinds of the attributes that class *kind* annotates, by name.

    Example:
        >>> class Total:
        ...     orders: int
        ...     lines: "list[float] | None"
        >>> annotated_kinds(Total)
        {'orders': Int(largest=0), 'lines': Items(item=Simple(name='float'))}
    """
    try:
        hints = get_type_hints(kind)
    except Exception:  # a name that exists for type checkers alone
        return {}
    return {
        name: _kind(hint)
        for name, hint in hints.items()
        if get_origin(hint) is not ClassVar
        and hint is not ClassVar
        and not (name.startswith("__") and name.endswith("__"))
    }


def narrowed(annotated: Kind, found: Kind) -> Kind:
    """The kind of values of kind *found* with an annotation, unless they do not fit that."""
    both = united([annotated, found])
    return found if has_json(both) and found != UNKNOWN else both


def _kind(hint: Any) -> Kind:  # noqa: PLR0911  (one for each kind)
    if isinstance(hint, type) and hint in _KINDS:
        return _KINDS[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Text(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return united(map(_kind, arguments))
    if origin in {typing.Annotated, typing.Final}:
        return _kind(arguments[0])
    if origin in _SEQUENCES and len(arguments) == 1:
        return Items(_kind(arguments[0]))
    if origin is tuple and arguments[1:] == (...,):
        return Items(_kind(arguments[0]))
    if origin is collections.Counter:
        arguments = (*arguments, int)
    if origin in (*_MAPPINGS, collections.Counter) and arguments:
        key, value = map(_kind, arguments)
        return Map(key, value) if isinstance(key, Int | Text) else UNKNOWN
    return UNKNOWN
