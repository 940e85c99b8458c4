"""Defaults of dataclasses, which msgspec leaves to the class instead of storing them in the object.

Encoders and `vars()` would not see the fields that a message has omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wallaroo.system.packages import required
from wallaroo.user_code.callers import one_call

_COLLECTIONS = {list, tuple, set, frozenset}
_Fields = tuple[tuple[tuple[str, Any], ...], tuple[str, ...]]
"""Names and defaults that may be missing in objects of a class, and fields that hold objects."""


def with_defaults(kind: Any, make: Callable[[Any], Any], codec: str) -> Callable[[Any], Any]:
    """Wrap *make*, which makes objects of *kind*, to store the defaults of omitted fields in them.

    Returns *make* itself if no class in *kind* leaves a default to the class.

    Example:
        >>> from dataclasses import dataclass
        >>> import msgspec
        >>> @dataclass
        ... class Trade:
        ...     symbol: str
        ...     price: float = 0.0
        >>> make = msgspec.json.Decoder(Trade).decode
        >>> vars(make(b'{"symbol": "A"}'))
        {'symbol': 'A'}
        >>> vars(with_defaults(Trade, make, "json_decoder")(b'{"symbol": "A"}'))
        {'symbol': 'A', 'price': 0.0}
    """
    inspect = required("msgspec", codec).inspect
    classes: dict[type, _Fields] = {}
    for info in _with_fields(inspect.type_info(kind)):
        defaults = (
            (field.name, field.default)
            for field in info.fields
            if isinstance(info, inspect.DataclassType)
            and getattr(info.cls, field.name, inspect) is field.default
        )
        nested = (field.name for field in info.fields if any(_with_fields(field.type)))
        classes[info.cls] = tuple(defaults), tuple(nested)
    if not any(defaults for defaults, _ in classes.values()):
        return make
    complete = _completing(classes)

    @one_call
    def call(value: Any) -> Any:
        made = make(value)
        complete(made)
        return made

    return call


def _with_fields(info: Any) -> Iterator[Any]:
    """Yield the types in *info* that have fields."""
    return (part for _, part in types_in(info) if hasattr(part, "fields"))


def _completing(classes: dict[type, _Fields]) -> Callable[[Any], None]:
    def complete(value: Any) -> None:
        kind = type(value)
        if kind in classes:
            defaults, nested = classes[kind]
            if defaults:
                attributes = vars(value)
                for name, default in defaults:
                    if name not in attributes:
                        attributes[name] = default
            for name in nested:
                complete(getattr(value, name))
        elif kind is dict:
            for item in (*value, *value.values()):
                complete(item)
        elif kind in _COLLECTIONS:
            for item in value:
                complete(item)

    return complete


def types_in(info: Any) -> Iterator[tuple[str, Any]]:
    """Yield *info*, a type as `msgspec.inspect` describes it, and every type in it, once.

    Each comes with the field that has it, for the beginning of a message.

    Example:
        >>> import msgspec
        >>> [type(part).__name__ for _, part in types_in(msgspec.inspect.type_info(list[int]))]
        ['ListType', 'IntType']
    """
    return _types_in(info, "", set())


def _types_in(info: Any, where: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(info) in seen:
        return
    seen.add(id(info))
    yield where, info
    for field in getattr(info, "fields", ()):
        yield from _types_in(field.type, f"its field {field.name}: ", seen)
    for name in ("item_type", "key_type", "value_type", "type"):
        if (part := getattr(info, name, None)) is not None:
            yield from _types_in(part, where, seen)
    for name in ("types", "item_types"):
        for part in getattr(info, name, ()):
            yield from _types_in(part, where, seen)
