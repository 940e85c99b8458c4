"""A walk over the types that a type of messages consists of, as msgspec describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


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
