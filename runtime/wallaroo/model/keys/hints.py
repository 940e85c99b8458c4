"""Checks the annotations of a key function before it returns any key."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints

from wallaroo.model.keys.classes import problem_of

_UNIONS = (Union, types.UnionType)
_HOLDERS = (tuple, frozenset)
_UNHASHABLE = (list, dict, set, bytearray)


def problem_of_keys(function: Callable[..., Any]) -> str | None:
    """Explain why the keys that *function* is annotated to return are invalid; None if unknown.

    Example:
        >>> def words(message) -> list[str]:
        ...     return message.split()
        >>> problem_of_keys(words)
        'list is not a valid key: it is mutable (unhashable); return tuple(key) instead'
    """
    return _problem(_hints(function).get("return", Any), ())


def _problem(hint: Any, around: tuple[Any, ...]) -> str | None:
    """Explain why values of type *hint*, contained in the classes *around*, are invalid keys."""
    if isinstance(hint, NewType):
        return _problem(hint.__supertype__, around)
    origin = get_origin(hint) or hint
    if origin is Annotated:
        return _problem(get_args(hint)[0], around)
    if origin in _UNIONS or origin in _HOLDERS:
        return _first(get_args(hint), around)
    if not inspect.isclass(origin) or origin in around:
        return None
    reason = problem_of(origin) if _is_final(origin) else None
    if reason is not None:
        return f"{origin.__qualname__} is not a valid key: {reason}"
    return _first(_parts_of(origin), (*around, origin))


def _first(hints: Iterable[Any], around: tuple[Any, ...]) -> str | None:
    return next((problem for hint in hints if (problem := _problem(hint, around))), None)


def _is_final(kind: type) -> bool:
    """Whether a value annotated as *kind* is of that class itself, not of a subclass."""
    if kind is Any or inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return False
    return kind in _UNHASHABLE or not type.__subclasses__(kind)


def _parts_of(kind: type) -> Iterable[Any]:
    """Return the types of the fields of a named tuple or dataclass."""
    if dataclasses.is_dataclass(kind):
        names = [f.name for f in dataclasses.fields(kind) if f.compare]
    else:
        names = list(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else []
    hints = _hints(kind) if names else {}
    return [hints[name] for name in names if name in hints]


def _hints(thing: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(thing, include_extras=True)
    except Exception:  # names imported only for type checkers, or no annotations at all
        return {}
