"""Classes of keys: the plain value that represents a key for hashing.

Keys that are equal and have equal hashes have the same plain value, whatever their classes are.
This holds for classes whose `==` and `hash` are those of a class of Python's library, numpy or
pandas, for enumerations, and for dataclasses with generated methods. Keys are pickled to cross
processes, so a key must also equal its copy. Any other value raises `InvalidKey`.
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
"""Classes whose objects may be looked up in a dictionary: if one equals a key, it is a valid key.
"""
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
"""What to return instead of an object of a class; `_IDENTITY` for all others."""
_IDENTITY = "a str, or a tuple of the values that identify it,"
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class InvalidKey(TypeError):
    """A value is not a valid key.

    Attributes:
        within: Class of the outermost key that contains the value; set while the error propagates.
    """

    def __init__(self, kind: type, reason: str, subject: str = "") -> None:
        super().__init__(kind, reason, subject)
        self.within = self._kind = kind
        self._reason = reason
        self._subject = subject or f"an object of class {kind.__qualname__}"

    def __str__(self) -> str:
        inside = (
            "" if self.within is self._kind else f" in a key of class {self.within.__qualname__}"
        )
        return f"{self._subject}{inside} is not a valid key: {self._reason}"


class KeyClass(NamedTuple):
    """How to handle keys of a class."""

    plain: Callable[[Any], Any]
    """From a key to the plain value that represents it; raises `InvalidKey` for invalid keys."""
    safe: bool = False
    """Whether its objects may be looked up in a dictionary; see `SAFE`."""
    parts: Callable[[Any], Iterable[Any]] | None = None
    """From an object to its parts: it may be looked up if all parts may; None if not applicable."""
    copied: bool = False
    """Whether each key must be compared with its copy; see `require_copy`."""


def key_class_of(kind: type) -> KeyClass:
    """Return how to handle keys of the class *kind*; if none is valid, `plain` raises."""

    def reject(_key: Any) -> Any:
        raise InvalidKey(kind, _problem(kind))

    return _known(kind) or KeyClass(reject)


def problem_of(kind: type) -> str | None:
    """Explain why no object of *kind* is a valid key, and what to return; None if one may be.

    Example:
        >>> problem_of(list)
        'it is mutable (unhashable); return tuple(key) instead'
    """
    return None if _known(kind) else _problem(kind)


def _problem(kind: type) -> str:
    if _is_uncertain_number(kind):
        return "a Decimal cannot be compared with it; return key.item() instead"
    instead = _INSTEAD.get(f"{kind.__module__}.{kind.__qualname__}", _IDENTITY)
    if kind.__hash__ is None and dataclasses.is_dataclass(kind):
        reason, instead = "it is mutable (unhashable)", f"{instead} or declare it frozen=True"
    elif kind.__hash__ is None:
        reason = "it is mutable (unhashable)"
    elif _is_local(kind):
        reason = "its class is defined in a function, so it cannot be pickled"
    elif kind.__name__ == "NaTType":
        reason, instead = "it is not equal to itself", "None"
    elif _compares_as(kind, object):
        reason = "it is equal only to itself, not to its copy in another process"
    elif issubclass(kind, enum.Enum):
        reason = "members of its class are not identical after pickling"
    else:
        reason = "its class defines __eq__ or __hash__, whose results may differ between processes"
    return f"{reason}; return {instead} instead"


def _known(kind: type) -> KeyClass | None:
    """Return how to handle keys of *kind*; None if none of its objects is a valid key."""
    if _is_local(kind):
        return None
    library = kind.__module__.partition(".")[0]
    return {"numpy": _numpy, "pandas": _pandas}.get(library, _by_comparison)(kind)


def _by_comparison(kind: type) -> KeyClass | None:
    """The same, by the class from which *kind* inherits `==` and `hash`."""
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
    return all(getattr(kind, name) is getattr(other, name) for name in ("__eq__", "__hash__"))


def _if_copied(kind: type, origin: type, key_class: KeyClass) -> KeyClass | None:
    """Return *key_class* for *kind*, with a check of copies unless they are known to be equal."""
    if are_copied_whole(kind, origin):
        return key_class
    return None if issubclass(kind, enum.Enum) else KeyClass(key_class.plain, copied=True)


def require_copy(key: Any) -> None:
    """Raise `InvalidKey` if *key* is not equal to its copy in another process."""
    problem = problem_of_copy(key)
    if problem is not None:
        raise InvalidKey(type(key), f"{problem}; return {_IDENTITY} instead")


def _is_local(kind: type) -> bool:
    return "<locals>" in kind.__qualname__


def _is_made_by_python(kind: type) -> bool:
    """Whether *kind* is a class of Python's library, or was created by `namedtuple`."""
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return True
    creator = getattr(kind.__new__, "__module__", None) or ""
    return kind.__bases__ == (tuple,) and creator.startswith("namedtuple_")


def _dataclass(kind: type) -> KeyClass | None:
    """The same for a dataclass with generated `==` and `hash`; None for other classes."""
    owner = next(c for c in kind.__mro__ if "__eq__" in vars(c))
    if "__dataclass_params__" not in vars(owner) or not _is_generated(kind, owner):
        return None
    fields = dataclasses.fields(owner)
    names = [f.name for f in fields if f.compare]  # equal in all of them, hashed or not
    values, name = _getter(names), kind.__qualname__
    key_class = KeyClass(lambda key: (name, *values(key)), parts=values)
    if len(names) < len(fields):  # the others may differ after copying
        return KeyClass(key_class.plain, copied=True)
    return _if_copied(kind, object, key_class)


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
    """Return a function that returns the values of the attributes *names* of a key."""
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
    """Whether *kind* is a class of numpy numbers that cannot be compared with a `Decimal`."""
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
    """Hash a number that may be NaN."""
    if key != key:  # noqa: PLR0124  (this is what NaN is)
        return _refuse_nan(key)
    return hash(key)


def _decimal(key: Decimal) -> int:
    return _refuse_nan(key) if Decimal.is_nan(key) else hash(key)


def _refuse_nan(key: Any) -> int:
    reason = "it is not equal to itself, so every message would get a new entity; return None"
    raise InvalidKey(type(key), f"{reason} instead", "NaN")


def _moment(key: datetime) -> int:
    """Return microseconds since the Unix epoch; without a zone, of the local clock."""
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
    """Reject *key* if it is not equal to its copy in *zone*, as in a repeated hour."""
    if not _is_shared(zone):
        require_copy(key)


def _unknown_zone(key: datetime | time) -> tuple[tzinfo, ...]:
    """Return the zone of *key* if it is of an unknown class, otherwise nothing."""
    zone = key.tzinfo
    return () if zone is None or _is_shared(zone) else (zone,)


def _is_shared(zone: tzinfo) -> bool:
    """Whether copies of *zone* compare as the same zone in every process."""
    return type(zone) is timezone or (type(zone) is ZoneInfo and is_shared_zone(zone))


def _duration(key: timedelta) -> int:
    return timedelta.__floordiv__(key, _MICROSECOND)


def _range(key: range) -> tuple[int, ...]:
    """Return a value that equal ranges share: the first and the last number, and the step."""
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
    # Windows paths compare lower-case forms; if these are equal, so are the case-folded forms
    pathlib.PurePath: KeyClass(lambda key: pathlib.PurePath.__str__(key).casefold(), safe=True),
    ipaddress.IPv4Address: KeyClass(_address, safe=True),
    ipaddress.IPv6Address: KeyClass(_address, safe=True),
    ipaddress.IPv4Interface: KeyClass(_address, safe=True),
    ipaddress.IPv6Interface: KeyClass(_address, safe=True),
    ipaddress.IPv4Network: KeyClass(_network, safe=True),
    ipaddress.IPv6Network: KeyClass(_network, safe=True),
}
"""Classes of Python's library, also for subclasses that inherit `==` and `hash`."""
