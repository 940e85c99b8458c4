"""Checks whether a key is equal to its copy in another process."""

from __future__ import annotations

import enum
import io
import pickle
from copyreg import dispatch_table
from functools import lru_cache
from types import FunctionType
from typing import Any
from zoneinfo import ZoneInfo

_HOOKS = (
    *("__new__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__"),
    *("__getstate__", "__setstate__"),
)
"""Methods that affect an object's copy after pickling."""


def problem_of_copy(key: Any) -> str | None:
    """Explain why *key* is not equal to its copy in another process; None if it is."""
    try:
        copy = _copy_of(key)
        if copy == key and hash(copy) == hash(key):
            return None
    except Exception as error:
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    return "it is not equal to its copy after pickling"


def are_copied_whole(kind: type, origin: type) -> bool:
    """Whether objects of *kind* are pickled in the same way as those of *origin*, a base class.

    Example:
        >>> class Name(str): pass
        >>> are_copied_whole(Name, str)
        True
    """
    if issubclass(kind, enum.Enum):
        return all(_is_shared(member) for member in kind.__members__.values())
    if kind is origin:
        return True
    hooks = _HOOKS if origin is object else (*_HOOKS, "__init__")  # which pickles may call
    return kind not in dispatch_table and all(_is_of(kind, origin, hook) for hook in hooks)


@lru_cache(maxsize=256)
def is_shared_zone(zone: ZoneInfo) -> bool:
    """Whether all copies of *zone* in a process are the same object."""
    return _is_shared(zone)


def _is_of(kind: type, origin: type, hook: str) -> bool:
    method = getattr(kind, hook, None)
    if method is getattr(origin, hook, None):
        return True
    # Python generates hooks for dataclasses with slots, which save all fields
    return getattr(method, "__module__", "") == "dataclasses"


def _is_shared(value: Any) -> bool:
    try:
        return _copy_of(value) is value
    except Exception:
        return False


def _copy_of(value: Any) -> Any:
    """Return a pickled and unpickled copy of *value*."""
    try:
        return pickle.loads(pickle.dumps(value, protocol=5))
    except (pickle.PicklingError, AttributeError):
        pass
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5)
    pickler.dump(value)
    file.seek(0)
    return _Unpickler(file, pickler.named).load()


class _Pickler(pickle.Pickler):
    """Passes classes and functions by reference: their module may have been reloaded."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.named: list[Any] = []

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, (type, FunctionType)):
            return None
        self.named.append(obj)
        return len(self.named) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, named: list[Any]) -> None:
        super().__init__(file)
        self._named = named

    def persistent_load(self, pid: Any) -> Any:
        return self._named[pid]
