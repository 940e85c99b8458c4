"""Objects that refer to each other: whether two such graphs are alike, node by node."""

from __future__ import annotations

import pickle
import types
from collections import deque
from typing import Any

_LEAVES = (int, float, str, bytes, type(None), type, types.FunctionType)


def reloaded(entity: Any) -> Any:
    """What pickling *entity* by itself gives."""
    return pickle.loads(pickle.dumps(entity, protocol=5))


def isomorphic(one: Any, other: Any) -> bool:
    """Whether what *one* and *other* lead to is alike, and shared alike."""
    there: dict[int, int] = {}
    back: dict[int, int] = {}
    held: list[Any] = []
    queue = deque([(one, other)])
    while queue:
        here, its = queue.popleft()
        held += (here, its)
        if type(here) is not type(its):
            return False
        if isinstance(here, _LEAVES):
            if here != its:
                return False
            continue
        if id(here) in there or id(its) in back:
            if there.get(id(here)) != id(its) or back.get(id(its)) != id(here):
                return False
            continue
        if not isinstance(here, types.MethodType):  # a bound method is another object each time
            there[id(here)], back[id(its)] = id(its), id(here)
        parts, others = _parts(here), _parts(its)
        if len(parts) != len(others):
            return False
        queue.extend(zip(parts, others, strict=True))
    return True


def _parts(value: Any) -> list[Any]:
    parts: list[Any] = []
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__name__]
    if isinstance(value, dict):
        parts += [part for pair in value.items() for part in pair]
    elif isinstance(value, (set, frozenset)):
        parts += sorted(value, key=repr)
    elif isinstance(value, (list, tuple, deque)):
        parts += value
    for base in type(value).__mro__:
        for name in vars(base).get("__slots__", ()):
            parts += [name, getattr(value, name, "no value")]
    for name, part in getattr(value, "__dict__", {}).items():
        parts += [name, part]
    return parts
