"""Keys out of the ordinary: equal ones that differ in all else, and values that are not keys.

Also applications whose key functions return them; a message is the name of one of them.
"""

from __future__ import annotations

import enum
import ipaddress
import math
import re
import threading
import time as clocks
from collections import namedtuple
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

import wallaroo
from tests.applications.counting import Count, count, decode, encode
from tests.applications.gathering import Gathering
from wallaroo.api.builder import DeclaredApplication

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZONES = [UTC, BERLIN, NEW_YORK, ZoneInfo("Asia/Tokyo")]
ZONES += [timezone(timedelta(hours=hours)) for hours in (-7, 3, 5, 11)]


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Level(enum.IntEnum):
    LOW = 1


class Code(enum.StrEnum):
    OK = "ok"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Share(float, enum.Enum):
    HALF = 0.5


class Text(str):
    __slots__ = ()


class LoudText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


class Lowered(str):
    """Pickling calls `__new__`, which does it no harm."""

    __slots__ = ()

    def __new__(cls, text: str) -> Lowered:
        return super().__new__(cls, text.lower())


class Pair(NamedTuple):
    left: Any
    right: Any


OldPair = namedtuple("OldPair", "left right")


@dataclass(frozen=True)
class Account:
    bank: Any
    number: Any
    opened: datetime = field(default=NOON, compare=False)


@dataclass(unsafe_hash=True)
class Basket:
    name: str
    items: Any = field(default=(), hash=False)


@dataclass(frozen=True, slots=True)
class Slotted:
    at: Any


@dataclass(frozen=True)
class Premium(Account):
    pass


@dataclass(frozen=True)
class Empty:
    pass


class Plain:
    pass


@dataclass
class Unfrozen:
    name: str


@dataclass(frozen=True, eq=False)
class ByIdentity:
    name: str


class AnyCase(str):
    """Is equal to text, and has its hash."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self).lower() == str(other).lower()

    def __hash__(self) -> int:
        return hash(str(self).lower())


class HashedText(str):
    __slots__ = ()

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True)
class Customer:
    name: str
    visits: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Customer) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class KnowsItsHash:
    name: str

    def __hash__(self) -> int:
        return hash(self.name)


class Prefixed(str):
    """Grows each time it is pickled."""

    __slots__ = ()

    def __new__(cls, text: str) -> Prefixed:
        return super().__new__(cls, f">{text}")


class Things(enum.Enum):
    ONE = Plain()

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        """By value, as Python itself does it from 3.11.4 on."""
        return Things, (self._value_,)


class Summer(tzinfo):
    """Not the same object after pickling, and with an hour that comes twice."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is None or moment.fold else 2)

    def dst(self, _moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _moment: datetime | None) -> str | None:
        return None


def in_zone(zone: tzinfo) -> datetime:
    """Noon in UTC, as it is told in *zone*."""
    return NOON.astimezone(zone)


def local_class() -> type:
    """A class that only a function knows."""

    class Hidden(str):
        __slots__ = ()

    return Hidden


EQUAL: dict[str, tuple[Hashable, ...]] = {
    "one": (1, 1.0, True, 1 + 0j, Decimal(1), Fraction(1), Level.LOW, np.float32(1)),
    "one of numpy": (1, np.bool_(True), np.float64(1), np.complex64(1)),
    "zero": (0, 0.0, -0.0, False, Decimal("0.00"), np.float64(-0.0)),
    "many": (2**70, float(2**70), Decimal(2**70)),
    "half": (0.5, Fraction(1, 2), Decimal("0.5"), Share.HALF, np.float16(0.5)),
    "infinity": (math.inf, Decimal("inf"), np.float64("inf")),
    "text": ("ok", Code.OK, Text("ok"), LoudText("ok"), Lowered("OK"), np.str_("ok")),
    "bytes": (b"ok", np.bytes_(b"ok")),
    "none": (None, None),
    "tuple": (("a", 1), Pair("a", 1), OldPair("a", 1), ("a", 1.0), (Text("a"), True)),
    "frozenset": (frozenset({1, "a"}), frozenset({"a", 1.0})),
    "datetime": (*map(in_zone, ZONES), pd.Timestamp(NOON), pd.Timestamp(in_zone(BERLIN))),
    "naive datetime": (datetime(2026, 3, 1), datetime(2026, 3, 1, fold=1), pd.Timestamp("2026-3")),
    "hour that comes twice": (
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    ),
    "datetimes in a tuple": tuple(("eu", in_zone(zone)) for zone in ZONES),
    "datetimes in an object": tuple(Account("eu", in_zone(zone)) for zone in ZONES),
    "datetimes in slots": tuple(Slotted(in_zone(zone)) for zone in ZONES),
    "datetimes in a set": tuple(frozenset({1, in_zone(zone)}) for zone in ZONES),
    "first moment": (
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.min.replace(tzinfo=timezone(timedelta(minutes=60))),
    ),
    "date": (date(2026, 3, 1), date.fromisoformat("2026-03-01")),
    "time": (
        time(12, tzinfo=UTC),
        time(13, 0, 0, 0, timezone(timedelta(hours=1))),
        time(5, tzinfo=timezone(timedelta(hours=-7))),
    ),
    "naive time": (time(12), time(12, fold=1), time(12, tzinfo=BERLIN)),
    "timedelta": (timedelta(days=1), timedelta(hours=24), pd.Timedelta("1D")),
    "uuid": (UUID(int=7), UUID(int=7, is_safe=SafeUUID.safe), UUID(int=7, is_safe=SafeUUID.unsafe)),
    "range": (range(0, 5, 2), range(0, 6, 2)),
    "empty range": (range(0), range(7, 3)),
    "range of one": (range(4, 5), range(4, 9, 7)),
    "long range": (range(2**80), range(0, 2**80, 1)),
    "windows path": (PureWindowsPath("C:/Data/A"), PureWindowsPath("c:\\data\\a")),
    "path": (PurePosixPath("a/b"), PurePosixPath("a//b/.")),
    "address": (ipaddress.ip_address("10.0.0.1"), ipaddress.IPv4Address(0x0A000001)),
    "address 6": (ipaddress.ip_address("::1"), ipaddress.ip_address("0:0:0:0:0:0:0:1")),
    "network": (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("10.0.0.0/255.0.0.0")),
    "interface": (ipaddress.ip_interface("10.0.0.1/8"),) * 2,
    "enumeration": (Side.BUY, Side(1)),
    "flags": (Right.READ | Right.WRITE, Right(3)),
    "no flags": (Right(0), Right.READ & Right.WRITE),
    "class": (Plain, Plain),
    "dataclass": (Account("x", 1), Account("x", 1.0, datetime.min)),
    "dataclass hashed in part": (Basket("a", (1,)), Basket("a", (1.0,))),
    "dataclass under one": (Premium("x", 1), Premium("x", True)),
    "dataclass of nothing": (Empty(), Empty()),
    "structure": (clocks.gmtime(0), tuple(clocks.gmtime(0))),
    "nanoseconds": (
        pd.Timestamp(1, tz="UTC"),
        pd.Timestamp(1, tz="UTC").tz_convert("Europe/Berlin"),
    ),
}
"""Groups of keys that are all equal; what they are not equal to is in another group."""

INVALID: dict[str, tuple[Any, str]] = {
    "list": ([1], "class list is not a valid key: it is mutable .* return tuple.key. instead"),
    "dict": ({"a": 1}, "tuple.sorted.key.items"),
    "set": ({1}, "return frozenset.key. instead"),
    "bytearray": (bytearray(b"x"), "return bytes.key. instead"),
    "memoryview": (memoryview(b"ok"), "return bytes.key. instead"),
    "list in a tuple": (("a", [1]), "class list in a key of class tuple is not a valid key"),
    "unfrozen": (Unfrozen("a"), "declare it frozen=True"),
    "object": (Plain(), "class Plain is not a valid key: it is equal only to itself"),
    "object of identity": (ByIdentity("a"), "class ByIdentity .* it is equal only to itself"),
    "lock": (threading.RLock(), "class RLock .* it is equal only to itself"),
    "pattern": (re.compile("a"), "its class defines __eq__ or __hash__"),
    "any case": (
        AnyCase("OK"),
        "class AnyCase .* defines __eq__ or __hash__.* return a str, or a tuple",
    ),
    "any case in a tuple": (Pair("a", AnyCase("OK")), "class AnyCase in a key of class Pair"),
    "any case in an object": (
        Account("a", (1, AnyCase("OK"))),
        "class AnyCase in a key of class Account",
    ),
    "any case in a set": (frozenset({AnyCase("OK")}), "class AnyCase in a key of class frozenset"),
    "own hash": (HashedText("ok"), "its class defines __eq__ or __hash__"),
    "dataclass with its own": (Customer("a", 1), "its class defines __eq__ or __hash__"),
    "dataclass with a hash": (KnowsItsHash("a"), "its class defines __eq__ or __hash__"),
    "grows": (Prefixed("a"), "class Prefixed .* not equal to its copy after pickling"),
    "hidden": (local_class()("ok"), "defined in a function"),
    "hidden class": (
        local_class(),
        "the class .*Hidden is not a valid key.* defined in a function",
    ),
    "members that change": (Things.ONE, "not identical after pickling"),
    "nan": (math.nan, "NaN is not a valid key: it is not equal to itself"),
    "decimal nan": (Decimal("nan"), "NaN is not"),
    "signaling nan": (Decimal("snan"), "NaN is not"),
    "complex nan": (complex(0, math.nan), "NaN is not"),
    "numpy nan": (np.float32("nan"), "NaN is not"),
    "nan in a tuple": (("a", ("b", math.nan)), "NaN in a key of class tuple is not"),
    "nan in an object": (Account("a", math.nan), "NaN in a key of class Account is not"),
    "nan beside the hash": (Basket("a", float("nan")), "NaN in a key of class Basket"),
    "list beside the hash": (Basket("a", [1]), "class list in a key of class Basket"),
    "not a time": (pd.NaT, "it is not equal to itself; return None"),
    "numpy integer": (np.int64(1), "a Decimal cannot be compared with it; return key.item()"),
    "numpy long double": (np.longdouble(1), "return key.item()"),
    "numpy time": (np.datetime64("2026-03-01"), "astype"),
    "numpy duration": (np.timedelta64(1, "s"), "astype"),
    "array": (np.array([1, 2]), "return tuple.key.tolist"),
    "moment that comes twice": (datetime(2026, 1, 1, tzinfo=Summer()), "not equal to its copy"),
}
"""Values that are not keys, and what is to be said of them."""


def key_named(name: str) -> Any:
    """The key, or what is not one, that a message names: `datetime 3`, `nan`."""
    group, _, number = name.rpartition(" ")
    return EQUAL[group][int(number)] if number.isdecimal() else INVALID[name][0]


@wallaroo.partition
def key(name: str) -> Any:
    return key_named(name)


@wallaroo.computation(name="name")
def name_of(counted: str) -> str:
    return counted.partition(":")[0]


LISTED = [keys[0] for keys in EQUAL.values() if 1 not in keys]


def application_setup(_args: list[str]) -> DeclaredApplication:
    """Counts the messages of each key: at once, of listed keys, and behind each other."""
    builder = wallaroo.ApplicationBuilder("Odd keys")
    sinks = [wallaroo.TCPSinkConfig("127.0.0.1", port, encode) for port in (1, 2, 3)]
    builder.new_pipeline("Direct", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    builder.to_state_partition(count, Count, "direct", key).to_sink(sinks[0])
    builder.new_pipeline("Listed", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    builder.to_state_partition(count, Count, "listed", key, LISTED, other_keys="drop")
    builder.to_sink(sinks[1])
    builder.new_pipeline("Chained", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    builder.to(name_of).to_state_partition(count, Count, "first", initial)
    builder.to(name_of).to_state_partition(count, Count, "second", key)
    builder.to(name_of).to_state_partition(count, Count, "first", key).to_sink(sinks[2])
    return builder.build()


def keyed_by(_args: list[str]) -> DeclaredApplication:
    """Counts them where the key is found before a step without state, and in windows."""
    source = wallaroo.source("Keyed", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    windows = wallaroo.count_windows(3).with_timeout(wallaroo.seconds(1)).over(Window)
    counted = source.key_by(key).to(name_of).to(windows)
    return wallaroo.build_application(
        "Keyed", counted.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, encode))
    )


@wallaroo.partition
def initial(name: str) -> str:
    return name[0]


class Window(Gathering[str, str]):
    def output(self, key: Any, accumulator: list[str]) -> str:
        return f"{key!r}: {accumulator}"
