"""Many entities of one plain class, saved attribute by attribute.

Pickling an object costs what a dozen of its values cost. Entities of a class that leaves pickling
to Python all have the same attributes as a rule: then their values are taken out in bulk, and the
class and the names are saved once. What comes back is what pickling would have given, as long as
nothing in the values refers back to an entity: `saved` looks after that.
"""

from __future__ import annotations

import copyreg
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from types import MemberDescriptorType
from typing import Any, NamedTuple

_HOOKS = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")
_OPTIONAL_HOOKS = ("__setstate__", "__getnewargs__", "__getnewargs_ex__")
_ALL_HOOKS = frozenset((*_HOOKS, *_OPTIONAL_HOOKS))


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
        slots = None if kind is None else slots_of(kind)
        if kind is None or slots is None:
            return None
        if not slots:
            held = list(map(vars, held))
        names = slots or tuple(held[0])
        if not slots and not all(map(names.__eq__, map(tuple, held))):
            return None
        if not _ALL_HOOKS.isdisjoint(names):
            return None
        get: Callable[[str], Callable[[Any], Any]] = attrgetter if slots else itemgetter
        try:
            values = [list(map(get(name), held)) for name in names]
        except AttributeError:  # a slot without value
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
        if len(set(map(id, found))) != len(found):  # some share one object, or are not there
            found = [new(kind) for _ in found]
            entities.update(zip(self.keys, found, strict=True))
        elif set(map(type, found)) != {kind}:
            found = [one if type(one) is kind else new(kind) for one in found]
            entities.update(zip(self.keys, found, strict=True))
        if slots_of(kind):
            for name, column in zip(self.names, self.values, strict=True):
                _exhaust(map(getattr(kind, name).__set__, found, column))
            return
        held: list[Any] = list(map(vars, found))
        for attributes in held:
            if attributes and tuple(attributes) != self.names:
                attributes.clear()
        for name, column in zip(self.names, self.values, strict=True):
            for attributes, value in zip(held, column, strict=True):
                attributes[name] = value


@lru_cache(maxsize=1024)
def is_plain(kind: type) -> bool:
    """Whether *kind* leaves pickling of its objects to Python."""
    return (
        all(getattr(kind, hook) is getattr(object, hook) for hook in _HOOKS)
        and not any(hasattr(kind, hook) for hook in _OPTIONAL_HOOKS)
        and kind not in copyreg.dispatch_table
        and (not _slot_names(kind) or not _has_own(kind, "__setattr__"))
    )


@lru_cache(maxsize=256)
def slots_of(kind: type) -> tuple[str, ...] | None:
    """Slots of a plain class, none of them if it has a `__dict__`; None if it is not plain."""
    names = _slot_names(kind)
    has_dict = kind.__dictoffset__ != 0
    if not is_plain(kind) or (has_dict and names):
        return None
    if not all(isinstance(getattr(kind, name, None), MemberDescriptorType) for name in names):
        return None  # private, or hidden by something of a class derived from it
    if has_getattr(kind):  # pickling looks for hooks on its objects, and may fail
        return None
    return tuple(names) if names or has_dict else None


def _slot_names(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def has_getattr(kind: type) -> bool:
    """Whether *kind* finds attributes in a way of its own."""
    return _has_own(kind, "__getattr__") or _has_own(kind, "__getattribute__")


def _has_own(kind: type, method: str) -> bool:
    return any(method in vars(base) for base in kind.__mro__ if base is not object)


def _exhaust(calls: Iterator[object]) -> None:
    """Make the *calls*, and forget what they return."""
    deque(calls, maxlen=0)
