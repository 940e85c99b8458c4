"""Python values and entities as JSON and back: plain if JSON has them, otherwise marked with `$`.

The mark says what the value is: `{"$tuple": [1, 2]}`, `{"$class": "module:Name", "field": 3}`. An
object is written as pickling would save it and is restored likewise, except that parts shared by
two objects are duplicated. Values that JSON cannot represent, such as a function or an object that
contains itself, are shown but cannot be restored.
"""

from __future__ import annotations

import base64
import copyreg
import datetime
import decimal
import enum
import importlib
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from wallaroo.model.migrations import FIRST
from wallaroo.model.timing import KeyTime

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
    """*value* as plain JSON values.

    Example:
        >>> to_plain({"a": (1, 2), "b": [b"x"]})
        {'a': {'$tuple': [1, 2]}, 'b': [{'$bytes': 'eA=='}]}
        >>> to_plain({1: datetime.date(2026, 3, 1)})
        {'$dict': [[1, {'$date': '2026-03-01'}]]}
    """
    return _to_plain(value, ())


def from_plain(plain: Any) -> Any:
    """The value for which `to_plain` returns *plain*; creates objects of the classes it names.

    Raises:
        ValueError: No value has this plain form.
        Exception: A class that it names does not exist, or does not accept the contents.

    Example:
        >>> from_plain({"$tuple": [1, {"$set": [2]}]})
        (1, {2})
    """
    if isinstance(plain, list):
        return [from_plain(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    mark = next(iter(plain), "")
    if mark == "$class":
        return _object(plain)
    if mark.startswith("$"):
        return _marked(mark, plain[mark])
    return {key: from_plain(item) for key, item in plain.items()}


def entity_json(
    state: str, key: Any, entity: Any, time: KeyTime | None = None, version: int = FIRST
) -> dict[str, Any]:
    """An entity as plain JSON values: `state`, `key`, `entity`, and the result of `about`."""
    plain = {"state": state, "key": to_plain(key), "entity": to_plain(entity)}
    return plain | about(time, version)


def about(time: KeyTime | None, version: int) -> dict[str, Any]:
    """The time of a key, if its state keeps it, and the version of a class unless it is 1."""
    known: dict[str, Any] = {} if time is None else {"time": time.to_json()}
    return known if version == FIRST else {**known, "version": version}


def _marked(mark: str, content: Any) -> Any:
    if mark in _SEQUENCES:
        return _SEQUENCES[mark](from_plain(item) for item in content)
    if mark in _AS_TEXT:
        return _AS_TEXT[mark][2](content)
    if mark == "$dict":
        return {from_plain(key): from_plain(item) for key, item in content}
    if mark == "$type":
        return _class_named(content)
    msg = f"there is no mark {mark!r}"
    if mark == "$repr":
        msg = f"JSON cannot represent {content}: export with --format pickle"
    raise ValueError(msg)


def _to_plain(value: Any, around: tuple[int, ...]) -> Any:
    """See `to_plain`; *around* are the identities of the containers of *value*."""
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
        _listed(value, around) if kind in _LISTED else _as_text(value) or _as_object(value, around)
    )


def _listed(value: Any, around: tuple[int, ...]) -> Any:
    items = [_to_plain(item, around) for item in value]
    mark = next((mark for mark, make in _SEQUENCES.items() if type(value) is make), None)
    return items if mark is None else {mark: items}


def _as_text(value: Any) -> dict[str, str] | None:
    """*value* as text, if the text represents it completely; otherwise None."""
    for mark, (kind, write, read) in _AS_TEXT.items():
        if type(value) is kind and pickle.dumps(read(write(value))) == pickle.dumps(value):
            return {mark: write(value)}
    return None


def _as_object(value: Any, around: tuple[int, ...]) -> Any:
    """*value* by what pickling would save."""
    kind = type(value)
    opaque = {"$repr": repr(value)}
    try:
        reduced = _reduced(value)
    except Exception:  # it cannot be pickled either
        return opaque
    if isinstance(reduced, str) or not _is_named(kind):
        return opaque
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    plain: dict[str, Any] = {"$class": _name(kind)}
    if make is copyreg.__newobj__ and arguments[0] is kind:  # type: ignore[attr-defined]
        if arguments[1:]:
            plain["$new"] = [_to_plain(argument, around) for argument in arguments[1:]]
    elif make is kind:
        plain["$call"] = [_to_plain(argument, around) for argument in arguments]
    else:
        return opaque
    if state is not None:
        attributes = None if hasattr(kind, "__setstate__") else _attributes(state)
        if attributes is None:
            plain["$state"] = _to_plain(state, around)
        else:
            plain |= {name: _to_plain(item, around) for name, item in attributes.items()}
    if items is not None and (listed := [_to_plain(item, around) for item in items]):
        plain["$items"] = listed
    if pairs is not None and (
        listed := [[_to_plain(part, around) for part in pair] for pair in pairs]
    ):
        plain["$pairs"] = listed
    return plain


def _reduced(value: Any) -> Any:
    """What pickling saves of *value*: of members of enumerations, on every Python, their value."""
    if isinstance(value, enum.Enum):  # before 3.11.4, Python itself saves their name
        return type(value), (value.value,)
    return value.__reduce_ex__(2)


def _attributes(state: Any) -> dict[str, Any] | None:
    """Attributes by name, if *state* is from Python's own `__getstate__`; otherwise None."""
    parts = state if isinstance(state, tuple) else (state,)
    if not all(part is None or isinstance(part, dict) for part in parts):
        return None
    attributes = {name: item for part in parts if part for name, item in part.items()}
    return attributes if all(name.isidentifier() for name in attributes) else None


def _object(plain: Mapping[str, Any]) -> Any:
    kind = _class_named(plain["$class"])
    if "$call" in plain:
        made = kind(*from_plain(plain["$call"]))
    else:
        made = kind.__new__(kind, *from_plain(plain.get("$new", [])))
    if "$state" in plain:
        made.__setstate__(from_plain(plain["$state"]))
    for name, item in plain.items():
        if name.startswith("$"):
            continue
        if isinstance(getattr(kind, name, None), types.MemberDescriptorType):  # a slot
            object.__setattr__(made, name, from_plain(item))
        else:
            made.__dict__[name] = from_plain(item)
    for item in plain.get("$items", []):
        made.append(from_plain(item))
    for key, item in plain.get("$pairs", []):
        made[from_plain(key)] = from_plain(item)
    return made


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_named(name: str) -> Any:
    module, _, qualified = name.partition(":")
    try:
        kind = reduce(getattr, qualified.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        kind = None
    if isinstance(kind, type):
        return kind
    msg = f"there is no class {name}"
    raise ValueError(msg)


def _is_named(kind: type) -> bool:
    """Whether *kind* can be found by its name."""
    try:
        return _class_named(_name(kind)) is kind
    except ValueError:
        return False
