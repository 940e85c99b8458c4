"""Saves many objects of one plain class attribute by attribute.

Pickling an object costs as much as pickling a dozen of its values. Entities of a class with default
pickling usually have the same attributes: their values are then extracted in bulk, and the class
and the names are saved once. The result of loading is the same as with pickle, provided that no
value refers back to an entity, which `saved_entities` ensures.
"""

from __future__ import annotations

import copyreg
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from types import MemberDescriptorType
from typing import Any, NamedTuple

from wallaroo.model.migrations import slot_names

_HOOKS = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")
_OPTIONAL_HOOKS = ("__setstate__", "__getnewargs__", "__getnewargs_ex__")
_ALL_HOOKS = frozenset((*_HOOKS, *_OPTIONAL_HOOKS))


class Columns(NamedTuple):
    """Objects of a plain class, attribute by attribute."""

    kind: type
    """The class of all objects."""
    names: tuple[str, ...]
    """The attributes that all objects have."""
    values: Sequence[Sequence[Any]]
    """For each name, its value in each object."""

    @classmethod
    def of(cls, objects: Sequence[Any]) -> Columns | None:
        """Return the columns of *objects*; None unless all have the same plain class and shape.

        Example:
            >>> class Total:
            ...     def __init__(self) -> None:
            ...         self.count = 0
            >>> Columns.of([Total(), Total()]).values
            [[0, 0]]
            >>> Columns.of([Total(), None]) is None
            True
        """
        kinds = set(map(type, objects))
        kind = kinds.pop() if len(kinds) == 1 else None
        slots = None if kind is None else slots_of(kind)
        if kind is None or slots is None:
            return None
        if not slots:
            objects = list(map(vars, objects))
        names = slots or tuple(objects[0])
        if not slots and not all(map(names.__eq__, map(tuple, objects))):
            return None
        if not _ALL_HOOKS.isdisjoint(names):
            return None
        get: Callable[[str], Callable[[Any], Any]] = attrgetter if slots else itemgetter
        try:
            values = [list(map(get(name), objects)) for name in names]
        except AttributeError:  # a slot without value
            return None
        return cls(kind, names, values)

    def objects(self, count: int) -> list[Any]:
        """Return *count* new objects with these values."""
        objects: list[Any] = list(map(object.__new__, repeat(self.kind, count)))
        if not self.kind.__dictoffset__:
            for name, column in zip(self.names, self.values, strict=True):
                deque(map(getattr(self.kind, name).__set__, objects, column), maxlen=0)
            return objects
        attributes_of: list[Any] = list(map(vars, objects))
        for name, column in zip(self.names, self.values, strict=True):
            for attributes, value in zip(attributes_of, column, strict=True):
                attributes[name] = value
        return objects


@lru_cache(maxsize=1024)
def is_plain(kind: type) -> bool:
    """Whether objects of *kind* are pickled by default, without custom methods."""
    return (
        all(getattr(kind, hook) is getattr(object, hook) for hook in _HOOKS)
        and not any(hasattr(kind, hook) for hook in _OPTIONAL_HOOKS)
        and kind not in copyreg.dispatch_table
        and (not slot_names(kind) or not _has_own(kind, "__setattr__"))
    )


@lru_cache(maxsize=256)
def slots_of(kind: type) -> tuple[str, ...] | None:
    """Return the slots of a plain class, () if it has a `__dict__`; None if it is not plain."""
    names = slot_names(kind)
    has_dict = kind.__dictoffset__ != 0
    if not is_plain(kind) or (has_dict and names):
        return None
    if not all(isinstance(getattr(kind, name, None), MemberDescriptorType) for name in names):
        return None  # private, or shadowed in a subclass
    if has_getattr(kind):  # pickle looks up hooks on its objects, which may fail
        return None
    return tuple(names) if names or has_dict else None


def has_getattr(kind: type) -> bool:
    """Whether *kind* customises attribute access."""
    return _has_own(kind, "__getattr__") or _has_own(kind, "__getattribute__")


def _has_own(kind: type, method: str) -> bool:
    return any(method in vars(base) for base in kind.__mro__ if base is not object)
