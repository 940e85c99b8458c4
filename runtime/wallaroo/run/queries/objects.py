"""Objects that consist of attributes."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

_HEAP_TYPE = 1 << 9
"""Flag of classes that a `class` statement made."""
_OWN_PICKLING = ("__getnewargs__", "__getnewargs_ex__")


@cache
def is_plain(kind: type) -> bool:
    """Whether objects of *kind* consist of their attributes alone.

    Example:
        >>> is_plain(type("Total", (), {})), is_plain(dict), is_plain(type("Own", (dict,), {}))
        (True, False, False)
    """
    if hasattr(kind, "__struct_fields__"):  # msgspec's
        return True
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind.__dictoffset__ == 0
    if issubclass(kind, type | enum.Enum):
        return False
    bases = kind.__mro__[:-1]
    return (
        all(base.__flags__ & _HEAP_TYPE for base in bases)
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and not any(hasattr(kind, name) for name in _OWN_PICKLING)
    )


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of a plain object, without those that belong to libraries (`__name__`)."""
    kind: Any = type(value)
    if (names := _fields_of(kind)) is not None:
        return {name: getattr(value, name) for name in names}
    found = {name: slot.__get__(value) for name, slot in _slots_of(kind) if _is_set(slot, value)}
    own = getattr(value, "__dict__", None) or {}
    return found | (_without_internal(own) if "__" in " ".join(own) else own)


def default_of(kind: type, name: str) -> Any:
    """What objects of *kind* have that lack the attribute *name*; None if they have nothing."""
    found = inspect.getattr_static(kind, name, None)
    return None if hasattr(type(found), "__get__") else found


def values_of(kind: type, name: str, rows: Iterable[Mapping[str, Any] | None]) -> list[Any]:
    """The attribute *name* of each of *rows*, which are attributes of objects of *kind*."""
    default = default_of(kind, name)
    return [None if row is None else row.get(name, default) for row in rows]


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a named tuple, or of a class that lists them likewise; None of others."""
    fields = getattr(kind, "__struct_fields__", None)
    if fields is None and issubclass(kind, tuple):
        fields = kind._fields  # type: ignore[attr-defined]
    return fields if fields is None else tuple(fields)


@cache
def _slots_of(kind: type) -> tuple[tuple[str, Any], ...]:
    """The slots of *kind*, by the names of the attributes."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if _is_internal(name):
                continue
            private = name.startswith("__")
            own = base.__name__.lstrip("_")
            mangled = f"_{own}{name}" if private and own else name
            slot = vars(base).get(mangled)
            if inspect.ismemberdescriptor(slot):
                found[mangled] = slot
    return tuple(found.items())


def _is_set(slot: Any, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def _is_internal(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _without_internal(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if not _is_internal(name)}
