"""Many entities of one plain class, saved attribute by attribute.

Pickling an object costs what a dozen of its values cost. Entities of a class that leaves pickling
to Python all have the same attributes as a rule: then their values are taken out in bulk, and the
class and the names are saved once. What comes back is what pickling would have given.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

_HOOKS = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")
_OPTIONAL_HOOKS = ("__setstate__", "__getnewargs__", "__getnewargs_ex__")


class Columns(NamedTuple):
    """Entities by key, as columns."""

    kind: type
    """The class of each entity."""
    names: tuple[str, ...]
    """The attributes that each of them has."""
    keys: list[Any]
    """The key of each."""
    values: list[list[Any]]
    """For each name, its value in each entity."""

    @classmethod
    def of(cls, entities: Mapping[Any, Any]) -> Columns | None:
        """The columns of *entities*; None where they are not all of one plain class and shape.

        Example:
            >>> class Total:
            ...     def __init__(self) -> None:
            ...         self.count = 0
            >>> Columns.of({"a": Total(), "b": Total()}).values
            [[0, 0]]
            >>> Columns.of({"a": Total(), "b": None}) is None
            True
        """
        kinds = set(map(type, entities.values()))
        kind = kinds.pop() if len(kinds) == 1 else None
        slots = None if kind is None else _slots(kind)
        if kind is None or slots is None:
            return None
        held: list[Any] = list(entities.values()) if slots else list(map(vars, entities.values()))
        names = slots or tuple(held[0])
        if not slots and set(map(len, held)) != {len(names)}:
            return None
        get: Callable[[str], Callable[[Any], Any]] = attrgetter if slots else itemgetter
        try:
            values = [list(map(get(name), held)) for name in names]
        except (AttributeError, KeyError):  # one has other attributes, or a slot without value
            return None
        return cls(kind, names, list(entities), values)

    def entities(self) -> dict[Any, Any]:
        """The entities by key.

        Example:
            >>> class Total:
            ...     __slots__ = ("count",)
            ...     def __init__(self) -> None:
            ...         self.count = 0
            >>> Columns(Total, ("count",), ["a"], [[7]]).entities()["a"].count
            7
        """
        new, kind = object.__new__, self.kind
        made: list[Any] = [new(kind) for _ in self.keys]
        if _slots(kind):
            for name, column in zip(self.names, self.values, strict=True):
                put = getattr(kind, name).__set__
                for entity, value in zip(made, column, strict=True):
                    put(entity, value)
        elif self.names:
            for entity, row in zip(made, zip(*self.values, strict=True), strict=True):
                vars(entity).update(zip(self.names, row, strict=True))
        return dict(zip(self.keys, made, strict=True))


@lru_cache(maxsize=256)
def _slots(kind: type) -> tuple[str, ...] | None:
    """Slots of a plain class, none of them if it has a `__dict__`; None if it is not plain."""
    plain = (
        all(getattr(kind, hook) is getattr(object, hook) for hook in _HOOKS)
        and not any(hasattr(kind, hook) for hook in _OPTIONAL_HOOKS)
        and kind not in copyreg.dispatch_table
    )
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    names = [name for name in names if name not in {"__dict__", "__weakref__"}]
    has_dict = kind.__dictoffset__ != 0
    if not plain or (has_dict and names) or any(name.startswith("__") for name in names):
        return None
    return tuple(names) if names or has_dict else None
