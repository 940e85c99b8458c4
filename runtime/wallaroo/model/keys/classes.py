"""Classes of keys: the plain value that stands for a key in the place of its class's own hash.

Keys that are equal, and whose hashes are, have the same plain value, whatever their classes are.
That is known of classes whose `==` and `hash` are those of a class of Python's library, numpy or
pandas, of enumerations, and of dataclasses that leave both to Python. A key crosses processes as
its pickle, so it has to be equal to its copy, too. Any other value raises `InvalidKey`.
"""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import pathlib
import sys
import uuid
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from types import FunctionType, NoneType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from wallaroo.model.keys.copies import are_copied_whole, is_shared_zone, problem_of_copy

SAFE: set[type] = {str, bytes, int, bool, NoneType}
"""Classes whose objects may be looked up in a dictionary: what is equal to a key is one itself."""
_INSTEAD = {
    "builtins.list": "tuple(key)",
    "builtins.bytearray": "bytes(key)",
    "builtins.memoryview": "bytes(key)",
    "builtins.set": "frozenset(key)",
    "builtins.dict": "tuple(sorted(key.items()))",
    "numpy.ndarray": "tuple(key.tolist())",
    "numpy.datetime64": "key.astype('datetime64[us]').item()",
    "numpy.timedelta64": "key.astype('timedelta64[us]').item()",
}
"""What to return in the place of an object of a class; for all others `_IDENTITY`."""
_IDENTITY = "a str, or a tuple of the values that identify it,"
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class InvalidKey(TypeError):
    """A value cannot be a key.

    Attributes:
        within: Class of the whole key that the value is in; set on the way out of it.
    """

    def __init__(self, kind: type, why: str, what: str = "") -> None:
        super().__init__(kind, why, what)
        self.within = self._kind = kind
        self._why = why
        self._what = what or f"an object of class {kind.__qualname__}"

    def __str__(self) -> str:
        inside = (
            "" if self.within is self._kind else f" in a key of class {self.within.__qualname__}"
        )
        return f"{self._what}{inside} is not a valid key: {self._why}"


class KeyClass(NamedTuple):
    """What is known of a class of keys."""

    plain: Callable[[Any], Any]
    """From a key to the plain value that stands for it; raises `InvalidKey` if it is not one."""
    safe: bool = False
    """Whether its objects may be looked up in a dictionary; see `SAFE`."""
    parts: Callable[[Any], Iterable[Any]] | None = None
    """The values that an object is made of, where it may be looked up if all of them may."""
    copied: bool = False
    """Whether each key has to be compared with its copy: see `require_copy`."""


def key_class_of(kind: type) -> KeyClass:
    """What is known of the class *kind*; `plain` refuses what cannot be a key."""

    def refuse(_key: Any) -> Any:
        raise InvalidKey(kind, _problem(kind))

    return _known(kind) or KeyClass(refuse)


def problem_of(kind: type) -> str | None:
    """Why no object of the class *kind* is a valid key, and what to return; None where one may be.

    Example:
        >>> problem_of(list)
        'it can change (it is unhashable); return tuple(key) instead'
    """
    return None if _known(kind) else _problem(kind)


def _problem(kind: type) -> str:
    if _is_uncertain_number(kind):
        return "a Decimal cannot be compared with it; return key.item() instead"
    instead = _INSTEAD.get(f"{kind.__module__}.{kind.__qualname__}", _IDENTITY)
    if kind.__hash__ is None and dataclasses.is_dataclass(kind):
        why, instead = "it can change (it is unhashable)", f"{instead} or declare it frozen=True"
    elif kind.__hash__ is None:
        why = "it can change (it is unhashable)"
    elif _is_local(kind):
        why = "its class is defined in a function, so that it cannot be pickled"
    elif kind.__name__ == "NaTType":
        why, instead = "it is not equal to itself", "None"
    elif _compares_as(kind, object):
        why = "it is equal to itself alone, and not to its copy in another process"
    elif issubclass(kind, enum.Enum):
        why = "a member of its class is another object after pickling"
    else:
        why = "its class has its own __eq__ or __hash__, which another process may not agree with"
    return f"{why}; return {instead} instead"


def _known(kind: type) -> KeyClass | None:
    """What is known of *kind*; None where none of its objects is a key."""
    if _is_local(kind):
        return None
    library = kind.__module__.partition(".")[0]
    return {"numpy": _numpy, "pandas": _pandas}.get(library, _by_comparison)(kind)


def _by_comparison(kind: type) -> KeyClass | None:
    """What is known of *kind*, by the class that its `==` and `hash` are from."""
    base = next((base for base in kind.__mro__ if base in _BASES), object)
    if base is not object and _compares_as(kind, base):
        origin = next(c for c in kind.__mro__ if issubclass(c, base) and _is_made_by_python(c))
        return _if_copied(kind, origin, _BASES[base])
    if issubclass(kind, enum.Enum) and _compares_as(kind, enum.Enum):
        return _if_copied(kind, object, KeyClass(attrgetter("_name_"), safe=True))
    if issubclass(kind, type) and _compares_as(kind, object):
        return KeyClass(_name_of_class)
    return _dataclass(kind)


def _compares_as(kind: type, other: type) -> bool:
    """Whether *kind* has the `==` and `hash` of *other*."""
    return all(getattr(kind, how) is getattr(other, how) for how in ("__eq__", "__hash__"))


def _if_copied(kind: type, origin: type, known: KeyClass) -> KeyClass | None:
    """What is *known* of *kind* if its objects are equal to their copies, as those of *origin*."""
    if are_copied_whole(kind, origin):
        return known
    return None if issubclass(kind, enum.Enum) else KeyClass(known.plain, copied=True)


def require_copy(key: Any) -> None:
    """Raise `InvalidKey` if *key* is not equal to the copy of it that another process gets."""
    problem = problem_of_copy(key)
    if problem is not None:
        raise InvalidKey(type(key), f"{problem}; return {_IDENTITY} instead")


def _is_local(kind: type) -> bool:
    return "<locals>" in kind.__qualname__


def _is_made_by_python(kind: type) -> bool:
    """Whether *kind* is a class of Python's library, or one that `namedtuple` made."""
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return True
    made_by = getattr(kind.__new__, "__module__", None) or ""
    return kind.__bases__ == (tuple,) and made_by.startswith("namedtuple_")


def _dataclass(kind: type) -> KeyClass | None:
    """What is known of a dataclass whose `==` and `hash` Python generated; None of others."""
    owner = next(c for c in kind.__mro__ if "__eq__" in vars(c))
    if "__dataclass_params__" not in vars(owner) or not _is_generated(kind, owner):
        return None
    fields = dataclasses.fields(owner)
    names = [f.name for f in fields if f.compare]  # equal in all of them, hashed or not
    values, name = _getter(names), kind.__qualname__
    known = KeyClass(lambda key: (name, *values(key)), parts=values)
    if len(names) < len(fields):  # nothing is known of the others, but that they are copied
        return KeyClass(known.plain, copied=True)
    return _if_copied(kind, object, known)


def _is_generated(kind: type, owner: type) -> bool:
    """Whether `==` and `hash` of *kind* are what Python generates for the dataclass *owner*."""
    fields = dataclasses.fields(owner)
    alike = dataclasses.make_dataclass(
        "Alike",
        [(f.name, Any, dataclasses.field(compare=f.compare, hash=f.hash)) for f in fields],
        unsafe_hash=True,
    )
    return all(
        _code(getattr(kind, method)) == _code(getattr(alike, method)) is not None
        for method in ("__eq__", "__hash__")
    )


def _code(method: Any) -> tuple[Any, ...] | None:
    if not isinstance(method, FunctionType):
        return None
    code = method.__code__
    return code.co_code, code.co_names, code.co_consts


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of the attributes *names*."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda key: tuple(getattr(key, name) for name in names)


def _name_of_class(key: type) -> tuple[str, str]:
    if _is_local(key):
        raise InvalidKey(type(key), _problem(key), f"the class {key.__qualname__}")
    return key.__module__, key.__qualname__


def _numpy(kind: type) -> KeyClass | None:
    numpy = sys.modules["numpy"]
    if kind is numpy.str_:
        return _BASES[str]
    if kind is numpy.bytes_:
        return _BASES[bytes]
    is_number = issubclass(kind, (numpy.number, numpy.bool_)) and kind is not numpy.timedelta64
    return KeyClass(_inexact, safe=True) if is_number and not _is_uncertain_number(kind) else None


def _is_uncertain_number(kind: type) -> bool:
    """Whether *kind* is of numpy's numbers that a `Decimal` cannot be compared with."""
    numpy = sys.modules.get("numpy")
    return (
        numpy is not None
        and issubclass(kind, (numpy.integer, numpy.longdouble, numpy.clongdouble))
        and kind is not numpy.timedelta64
    )


def _pandas(kind: type) -> KeyClass | None:
    pandas = sys.modules["pandas"]
    if kind is pandas.Timestamp:
        return KeyClass(lambda key: key.value if key.nanosecond else _moment(key.to_pydatetime()))
    if kind is pandas.Timedelta:
        return KeyClass(
            lambda key: key.value if key.nanoseconds else _duration(key.to_pytimedelta())
        )
    return None


def _inexact(key: Any) -> int:
    """The hash of a number of a class that has NaN."""
    if key != key:  # noqa: PLR0124  (this is what NaN is)
        return _refuse_nan(key)
    return hash(key)


def _decimal(key: Decimal) -> int:
    return _refuse_nan(key) if Decimal.is_nan(key) else hash(key)


def _refuse_nan(key: Any) -> int:
    why = "it is not equal to itself, so each message would have its own; return None instead"
    raise InvalidKey(type(key), why, "NaN")


def _moment(key: datetime) -> int:
    """Microseconds since the epoch; by the clock of its zone where that is not known."""
    year, month, day = key.year, key.month, key.day
    clock = datetime(year, month, day, key.hour, key.minute, key.second, key.microsecond)
    since, zone = clock - _EPOCH, key.tzinfo
    if zone is not None:
        _require_zone(key, zone)
        since -= clock.replace(tzinfo=zone).utcoffset() or timedelta()  # fold 0, as `hash` does
    return since // _MICROSECOND


def _time(key: time) -> int:
    clock = timedelta(0, key.second, key.microsecond, 0, key.minute, key.hour)
    if key.tzinfo is not None:
        _require_zone(key, key.tzinfo)
        clock -= key.utcoffset() or timedelta()
    return clock // _MICROSECOND


def _require_zone(key: datetime | time, zone: tzinfo) -> None:
    """Refuse *key* if in *zone* it is not equal to its copy, as in the hour that comes twice."""
    if not _is_shared(zone):
        require_copy(key)


def _unknown_zone(key: datetime | time) -> tuple[tzinfo, ...]:
    """The zone of *key*, where it has one of a class that nothing is known of."""
    zone = key.tzinfo
    return () if zone is None or _is_shared(zone) else (zone,)


def _is_shared(zone: tzinfo) -> bool:
    """Whether in every process there is one object for *zone*, or it does not matter."""
    return type(zone) is timezone or (type(zone) is ZoneInfo and is_shared_zone(zone))


def _duration(key: timedelta) -> int:
    return timedelta.__floordiv__(key, _MICROSECOND)


def _range(key: range) -> tuple[int, ...]:
    """What equal ranges share: the numbers in them, told by the first, the last and the step."""
    if not key:
        return ()
    return (key[0],) if key[0] == key[-1] else (key[0], key[-1], key.step)


def _address(key: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(key)


def _network(key: ipaddress.IPv4Network | ipaddress.IPv6Network) -> int:
    return int(key.network_address)


_BASES: dict[type, KeyClass] = {
    str: KeyClass(str.__str__, safe=True),
    bytes: KeyClass(lambda key: b"".join((key,)), safe=True),
    tuple: KeyClass(lambda key: tuple(tuple.__iter__(key)), parts=tuple.__iter__),
    frozenset: KeyClass(lambda key: frozenset().union(key), parts=frozenset.__iter__),
    NoneType: KeyClass(lambda _none: 0, safe=True),
    int: KeyClass(hash, safe=True),
    Fraction: KeyClass(hash, safe=True),
    uuid.UUID: KeyClass(hash, safe=True),
    float: KeyClass(_inexact, safe=True),  # NaN is equal to nothing
    complex: KeyClass(_inexact, safe=True),
    Decimal: KeyClass(_decimal),  # a signaling NaN has no hash
    datetime: KeyClass(_moment, parts=_unknown_zone),
    date: KeyClass(date.toordinal, safe=True),
    time: KeyClass(_time, parts=_unknown_zone),
    timedelta: KeyClass(_duration, safe=True),
    range: KeyClass(_range, safe=True),
    # folded cases are equal wherever lower cases are, which is what paths of Windows compare
    pathlib.PurePath: KeyClass(lambda key: pathlib.PurePath.__str__(key).casefold(), safe=True),
    ipaddress.IPv4Address: KeyClass(_address, safe=True),
    ipaddress.IPv6Address: KeyClass(_address, safe=True),
    ipaddress.IPv4Interface: KeyClass(_address, safe=True),
    ipaddress.IPv6Interface: KeyClass(_address, safe=True),
    ipaddress.IPv4Network: KeyClass(_network, safe=True),
    ipaddress.IPv6Network: KeyClass(_network, safe=True),
}
"""Classes of Python's library; also for the classes under them that inherit `==` and `hash`."""
