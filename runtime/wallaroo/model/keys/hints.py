"""What the annotations of a key function say of its keys, before there is any."""

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
    """What is wrong with the keys that *function* is annotated to return; None if nothing is known.

    Example:
        >>> def words(message) -> list[str]:
        ...     return message.split()
        >>> problem_of_keys(words)
        'list is not a valid key: it can change (it is unhashable); return tuple(key) instead'
    """
    return _problem(_hints(function).get("return", Any), ())


def _problem(hint: Any, around: tuple[Any, ...]) -> str | None:
    """What is wrong with values of the type *hint*, which is in the classes *around*."""
    if isinstance(hint, NewType):
        return _problem(hint.__supertype__, around)
    origin = get_origin(hint) or hint
    if origin is Annotated:
        return _problem(get_args(hint)[0], around)
    if origin in _UNIONS or origin in _HOLDERS:
        return _first(get_args(hint), around)
    if not inspect.isclass(origin) or origin in around:
        return None
    why = problem_of(origin) if _is_final(origin) else None
    if why is not None:
        return f"{origin.__qualname__} is not a valid key: {why}"
    return _first(_parts_of(origin), (*around, origin))


def _first(hints: Iterable[Any], around: tuple[Any, ...]) -> str | None:
    return next((found for hint in hints if (found := _problem(hint, around))), None)


def _is_final(kind: type) -> bool:
    """Whether what is annotated as *kind* is of that class itself, and not of one under it."""
    if kind is Any or inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return False
    return kind in _UNHASHABLE or not type.__subclasses__(kind)


def _parts_of(kind: type) -> Iterable[Any]:
    """The types of what makes up a named tuple, or a dataclass."""
    if dataclasses.is_dataclass(kind):
        names = [f.name for f in dataclasses.fields(kind) if f.compare]
    else:
        names = list(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else []
    hints = _hints(kind) if names else {}
    return [hints[name] for name in names if name in hints]


def _hints(thing: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(thing, include_extras=True)
    except Exception:  # names that are imported for type checkers alone, or no annotations at all
        return {}
