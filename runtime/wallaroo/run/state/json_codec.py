"""Python values as JSON, and back again: plain where JSON has them, marked with `$` where not.

A mark tells what the value is: `{"$tuple": [1, 2]}`, `{"$class": "module:Name", "field": 3}`. An
object is told as pickling would save it, so it comes back as pickling would give it, but for one
thing: what two of its parts share, each has for itself afterwards. What JSON cannot carry at all (a
function, an object that contains itself) is shown and not read back.
"""

from __future__ import annotations

import base64
import copyreg
import datetime
import decimal
import importlib
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any

_AS_IS = (type(None), bool, int, float, str)
_SEQUENCES: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
}
_LISTED = (list, *_SEQUENCES.values())
_AS_TEXT: Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "$datetime": (
        datetime.datetime,
        datetime.datetime.isoformat,
        datetime.datetime.fromisoformat,
    ),
    "$date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "$decimal": (decimal.Decimal, str, decimal.Decimal),
    "$bytes": (bytes, lambda value: base64.b64encode(value).decode("ascii"), base64.b64decode),
}


def to_plain(value: Any) -> Any:
    """*value* as JSON has it.

    Example:
        >>> to_plain({"a": (1, 2), "b": [b"x"]})
        {'a': {'$tuple': [1, 2]}, 'b': [{'$bytes': 'eA=='}]}
        >>> to_plain({1: datetime.date(2026, 3, 1)})
        {'$dict': [[1, {'$date': '2026-03-01'}]]}
    """
    return _to_plain(value, ())


def from_plain(told: Any) -> Any:
    """The value that `to_plain` told; makes objects of the classes that it names.

    Raises:
        ValueError: It tells of none.
        Exception: A class that it names is not there, or does not take what it tells.

    Example:
        >>> from_plain({"$tuple": [1, {"$set": [2]}]})
        (1, {2})
    """
    if isinstance(told, list):
        return [from_plain(item) for item in told]
    if not isinstance(told, dict):
        return told
    mark = next(iter(told), "")
    if mark == "$class":
        return _object(told)
    if mark.startswith("$"):
        return _marked(mark, told[mark])
    return {key: from_plain(item) for key, item in told.items()}


def _marked(mark: str, content: Any) -> Any:
    if mark in _SEQUENCES:
        return _SEQUENCES[mark](from_plain(item) for item in content)
    if mark in _AS_TEXT:
        return _AS_TEXT[mark][2](content)
    if mark == "$dict":
        return {from_plain(key): from_plain(item) for key, item in content}
    if mark == "$type":
        return _class_named(content)
    told = f"JSON does not carry {content}: export with --format pickle"
    raise ValueError(told if mark == "$repr" else f"there is no mark {mark!r}")


def _to_plain(value: Any, around: tuple[int, ...]) -> Any:
    """*value* as JSON has it; *around* are the identities of what it is in."""
    kind = type(value)
    if kind in _AS_IS:
        return value
    if id(value) in around:
        return {"$repr": f"a {kind.__qualname__} that contains itself"}
    around = (*around, id(value))
    if kind is dict and not all(type(key) is str and not key.startswith("$") for key in value):
        return {"$dict": [[_to_plain(part, around) for part in pair] for pair in value.items()]}
    if kind is dict:
        return {key: _to_plain(item, around) for key, item in value.items()}
    if kind is type and _is_named(value):
        return {"$type": _name(value)}
    return (
        _listed(value, around)
        if kind in _LISTED
        else _as_text(value) or _object_told(value, around)
    )


def _listed(value: Any, around: tuple[int, ...]) -> Any:
    items = [_to_plain(item, around) for item in value]
    mark = next((mark for mark, make in _SEQUENCES.items() if type(value) is make), None)
    return items if mark is None else {mark: items}


def _as_text(value: Any) -> dict[str, str] | None:
    """*value* where a text tells all of it; None where none does."""
    for mark, (kind, told, read) in _AS_TEXT.items():
        if type(value) is kind and pickle.dumps(read(told(value))) == pickle.dumps(value):
            return {mark: told(value)}
    return None


def _object_told(value: Any, around: tuple[int, ...]) -> Any:
    """*value* by what pickling would save of it."""
    kind = type(value)
    opaque = {"$repr": repr(value)}
    try:
        reduced = value.__reduce_ex__(2)
    except Exception:  # it does not pickle either
        return opaque
    if isinstance(reduced, str) or not _is_named(kind):
        return opaque
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    told: dict[str, Any] = {"$class": _name(kind)}
    if make is copyreg.__newobj__ and arguments[0] is kind:  # type: ignore[attr-defined]
        if arguments[1:]:
            told["$new"] = [_to_plain(argument, around) for argument in arguments[1:]]
    elif make is kind:
        told["$call"] = [_to_plain(argument, around) for argument in arguments]
    else:
        return opaque
    if state is not None:
        attributes = None if hasattr(kind, "__setstate__") else _attributes(state)
        if attributes is None:
            told["$state"] = _to_plain(state, around)
        else:
            told |= {name: _to_plain(item, around) for name, item in attributes.items()}
    if items is not None and (listed := [_to_plain(item, around) for item in items]):
        told["$items"] = listed
    if pairs is not None and (
        listed := [[_to_plain(part, around) for part in pair] for pair in pairs]
    ):
        told["$pairs"] = listed
    return told


def _attributes(state: Any) -> dict[str, Any] | None:
    """Attributes by name, of what Python's own `__getstate__` gave; None if it is another's."""
    parts = state if isinstance(state, tuple) else (state,)
    if not all(part is None or isinstance(part, dict) for part in parts):
        return None
    found = {name: item for part in parts if part for name, item in part.items()}
    return found if all(name.isidentifier() for name in found) else None


def _object(told: Mapping[str, Any]) -> Any:
    kind = _class_named(told["$class"])
    if "$call" in told:
        made = kind(*from_plain(told["$call"]))
    else:
        made = kind.__new__(kind, *from_plain(told.get("$new", [])))
    if "$state" in told:
        made.__setstate__(from_plain(told["$state"]))
    for name, item in told.items():
        if name.startswith("$"):
            continue
        if isinstance(getattr(kind, name, None), types.MemberDescriptorType):  # a slot
            object.__setattr__(made, name, from_plain(item))
        else:
            made.__dict__[name] = from_plain(item)
    for item in told.get("$items", []):
        made.append(from_plain(item))
    for key, item in told.get("$pairs", []):
        made[from_plain(key)] = from_plain(item)
    return made


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


@lru_cache(maxsize=1024)
def _class_named(name: str) -> Any:
    module, _, qualified = name.partition(":")
    try:
        found = reduce(getattr, qualified.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        found = None
    if isinstance(found, type):
        return found
    msg = f"there is no class {name}"
    raise ValueError(msg)


def _is_named(kind: type) -> bool:
    """Whether *kind* is what its name leads to."""
    try:
        return _class_named(_name(kind)) is kind
    except ValueError:
        return False
