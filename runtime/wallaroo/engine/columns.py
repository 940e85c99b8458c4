"""Many entities of one plain class, saved attribute by attribute.

Pickling an object costs what a dozen of its values cost. Entities of a class that leaves pickling
to Python all have the same attributes as a rule: then their values are taken out in bulk, and the
class and the names are saved once. What comes back is what pickling would have given.
"""

from __future__ import annotations

import copyreg
from collections import deque
from collections.abc import Callable, Iterator, Mapping
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
        held: list[Any] = list(entities.values())
        kinds = set(map(type, held))
        kind = kinds.pop() if len(kinds) == 1 else None
        slots = None if kind is None else _slots(kind)
        if kind is None or slots is None:
            return None
        if not slots:
            held = list(map(vars, held))
        names = slots or tuple(held[0])
        if not slots and set(map(len, held)) != {len(names)}:
            return None
        get: Callable[[str], Callable[[Any], Any]] = attrgetter if slots else itemgetter
        try:
            values = [list(map(get(name), held)) for name in names]
        except (AttributeError, KeyError):  # one has other attributes, or a slot without value
            return None
        return cls(kind, names, list(entities), values)

    def put_into(self, entities: dict[Any, Any]) -> None:
        """Make these the entities of their keys in *entities*.

        Objects of the class that are there are kept and changed: that costs half as
        much as new ones, and leaves the garbage collector nothing to look at.

        Example:
            >>> class Total:
            ...     __slots__ = ("count",)
            ...     def __init__(self) -> None:
            ...         self.count = 0
            >>> entities = {"a": Total()}
            >>> Columns(Total, ("count",), ["a", "b"], [[7, 8]]).put_into(entities)
            >>> entities["a"].count, entities["b"].count
            (7, 8)
        """
        kind, new = self.kind, object.__new__
        found: list[Any] = list(map(entities.get, self.keys))
        if set(map(type, found)) != {kind}:
            found = [one if type(one) is kind else new(kind) for one in found]
            entities.update(zip(self.keys, found, strict=True))
        if _slots(kind):
            for name, column in zip(self.names, self.values, strict=True):
                _exhaust(map(getattr(kind, name).__set__, found, column))
            return
        held: list[Any] = list(map(vars, found))
        for name, column in zip(self.names, self.values, strict=True):
            for attributes, value in zip(held, column, strict=True):
                attributes[name] = value
        for attributes in held:
            if len(attributes) != len(self.names):
                for name in attributes.keys() - set(self.names):
                    del attributes[name]


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


def _exhaust(calls: Iterator[object]) -> None:
    """Make the *calls*, and forget what they return."""
    deque(calls, maxlen=0)
