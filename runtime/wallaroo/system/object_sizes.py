"""Estimates of the memory that an object takes, with all that it refers to."""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

_MOST = 4_096
"""Objects that are looked at; others are taken to be as large as these."""
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""Objects that belong to no entity."""
_VALUE = 8
"""Bytes of a reference to an attribute, which `sys.getsizeof` does not count."""


class Size(NamedTuple):
    """The memory of an object."""

    bytes: int
    may_be_cyclic: bool
    """Whether something in it is referred to twice, perhaps by itself."""


def size_of(value: Any) -> Size:
    """Estimate the memory that *value* takes.

    Example:
        >>> size_of("x" * 1000).bytes
        1049
        >>> row = ["a"]
        >>> size_of([row, row]).may_be_cyclic
        True
    """
    seen, queue, size, cyclic = {id(value)}, [value], 0, False
    looked_at = 0
    while queue and looked_at < _MOST:
        one = queue.pop()
        looked_at += 1
        try:
            size += sys.getsizeof(one)
        except Exception:  # of code of the application
            size += _VALUE
        if not gc.is_tracked(one) and type(one) is not dict and type(one) is not tuple:
            continue  # it refers to nothing, or to what is not worth a look
        parts = gc.get_referents(one)
        if type(one).__dictoffset__:
            size += _VALUE * len(parts)
        for part in parts:
            if part is None or issubclass(type(part), _SHARED):  # it calls no code of the part
                continue
            if id(part) in seen:
                cyclic = cyclic or gc.is_tracked(part)
                continue
            seen.add(id(part))
            queue.append(part)
    if queue:
        size = size * (looked_at + len(queue)) // looked_at
    return Size(size, cyclic)
