"""The applications of the golden state directories, and the messages of each.

What is saved in the directories names the classes in here, so these must stay as they are; what
other state is to be covered gets an application of its own.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import wallaroo
from tests.applications.gathering import Gathering
from wallaroo.api.builder import DeclaredApplication


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.encoder
def encode(text: str) -> str:
    return text


SOURCE = wallaroo.TCPSourceConfig("127.0.0.1", 0, decode)
SINK = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)


@wallaroo.partition
def letter(text: str) -> str:
    return text[0]


@wallaroo.partition
def ending(text: str) -> str:
    return text[-1]


@wallaroo.partition
def length(text: str) -> int:
    return len(text)


class Total:
    def __init__(self) -> None:
        self.messages = 0
        self.texts: list[str] = []


@wallaroo.state_computation(name="count")
def count(text: str, total: Total) -> tuple[str, bool]:
    total.messages += 1
    total.texts.append(text)
    return f"{text} {total.messages}: {''.join(total.texts)}", True


def plain() -> DeclaredApplication:
    """One state, of objects of a plain class."""
    builder = wallaroo.ApplicationBuilder("Golden plain")
    builder.new_pipeline("Plain", SOURCE).to_state_partition(count, Total, "totals", letter)
    builder.to_sink(SINK)
    return builder.build()


class Slotted:
    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class OwnWay:
    """Pickles in its own way."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = list(texts)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return OwnWay, (tuple(self.texts),)


@wallaroo.state_computation(name="count in slots")
def count_in_slots(text: str, slotted: Slotted) -> tuple[str, bool]:
    slotted.messages += 1
    return f"{text} {slotted.messages}", True


@wallaroo.state_computation(name="count in a dictionary")
def count_in_dict(text: str, counts: dict[str, int]) -> tuple[str, bool]:
    counts[text[0]] = counts.get(text[0], 0) + 1
    return f"{text} {sorted(counts.items())}", True


@wallaroo.state_computation(name="remember")
def remember(text: str, own: OwnWay) -> tuple[str, bool]:
    own.texts.append(text[:2])
    return f"{text} {own.texts}", True


def states() -> DeclaredApplication:
    """States of several kinds, behind one another and side by side; one lists its keys."""
    builder = wallaroo.ApplicationBuilder("Golden states")
    builder.new_pipeline("Chained", SOURCE)
    builder.to_state_partition(count_in_slots, Slotted, "slots", letter)
    builder.to_state_partition(count_in_dict, dict, "dictionaries", ending, [*"0123456789"])
    builder.to_sink(SINK)
    builder.new_pipeline("Beside", SOURCE)
    builder.to_state_partition(remember, OwnWay, "own way", length).to_sink(SINK)
    return builder.build()


CENTURY = wallaroo.hours(24 * 36525)
"""Long enough that no window closes because the clock goes on between making and opening."""


def event_time(text: str) -> int:
    return CENTURY * int(text[1:])


class Gather(Gathering[str, str]):
    def output(self, key: Any, accumulator: list[str]) -> str:
        return f"{key}: {' '.join(accumulator)}"


def windows() -> DeclaredApplication:
    """Windows of a number of messages and of a time, which slide."""
    source = wallaroo.source("Windows", SOURCE).key_by(letter)
    slid = wallaroo.range_windows(CENTURY).with_slide(CENTURY // 2).with_delay(CENTURY)
    ranges = source.clone().to(slid.with_event_time(event_time).over(Gather))
    counted = source.to(wallaroo.count_windows(3).over(Gather))
    return wallaroo.build_application("Golden windows", ranges.merge(counted).to_sink(SINK))


class GatherEarly(Gather):
    def output(self, key: Any, accumulator: list[str], *window: Any) -> str:
        ends = [time // CENTURY for time in (window[0].start_ns, window[0].end_ns)]
        return f"{key} {ends}: {' '.join(sorted(accumulator))}"


def sessions() -> DeclaredApplication:
    """Sessions, and windows of a number of messages, both with early results."""
    source = wallaroo.source("Sessions", SOURCE).key_by(letter)
    sessions = wallaroo.session_windows(CENTURY * 2).with_delay(CENTURY)
    sessions = sessions.with_event_time(event_time).with_early_results(messages=2)
    visits = source.to(sessions.over(GatherEarly()))
    counted = wallaroo.count_windows(3).with_early_results(every=CENTURY)
    merged = visits.merge(source.to(counted.over(Gather)))
    return wallaroo.build_application("Golden sessions", merged.to_sink(SINK))


@wallaroo.table_join(name="last", ttl=CENTURY)
def last(left: str, right: str) -> str:
    return f"last {left} {right}"


@wallaroo.asof_join(
    name="latest",
    how="left",
    tolerance=CENTURY,
    delay=CENTURY,
    left_time=event_time,
    right_time=event_time,
)
def latest(left: str, right: str | None) -> str:
    return f"latest {left} {right}"


@wallaroo.interval_join(
    name="near",
    how="left",
    before=CENTURY,
    after=CENTURY,
    delay=CENTURY,
    left_time=event_time,
    right_time=event_time,
)
def near(left: str, right: str | None) -> str:
    return f"near {left} {right}"


def joins() -> DeclaredApplication:
    """Joins of all kinds, of the same two streams."""
    left, right = (wallaroo.source(name, SOURCE).key_by(letter) for name in ("Left", "Right"))
    joined = left.join(right, last).merge(left.join(right, latest)).merge(left.join(right, near))
    return wallaroo.build_application("Golden joins", joined.to_sink(SINK))


def remind(name: str, total: Total, timers: wallaroo.Timers) -> str:
    total.messages += 1
    if name == "first":
        timers.set_after(CENTURY, "second")
    return f"{name} {timers.key} {timers.now // CENTURY}: {''.join(total.texts)}"


@wallaroo.state_computation(
    name="count and remind", state=Total, on_timer=remind, event_time=event_time
)
def count_and_remind(text: str, total: Total, timers: wallaroo.Timers) -> str:
    timers.set_after(CENTURY * 2, "first")
    timers.set_after(CENTURY * 3, f"about {text}")
    return count.function(text, total)[0]


@wallaroo.state_computation(name="forget", state=Total, event_time=event_time, ttl=CENTURY * 2)
def forget(text: str, total: Total) -> str:
    return f"lately {count.function(text, total)[0]}"


def timers() -> DeclaredApplication:
    """A state with timers, and one that expires, by event time."""
    source = wallaroo.source("Timers", SOURCE).key_by(letter)
    merged = source.to(count_and_remind).merge(source.to(forget))
    return wallaroo.build_application("Golden timers", merged.to_sink(SINK))


class ClassDecoder:
    def header_length(self) -> int:
        return 4

    def payload_length(self, header: bytes) -> int:
        return int.from_bytes(header, "big")

    def decode(self, payload: bytes) -> str:
        return payload.decode()


class ClassEncoder:
    def encode(self, text: str) -> bytes:
        return text.encode()


class Account:
    def __init__(self) -> None:
        self.balance = 0


class AccountBuilder:
    def build(self) -> Account:
        return Account()


class ByLetter:
    def partition(self, text: str) -> str:
        return text[0]


class Deposit:
    def name(self) -> str:
        return "deposit"

    def compute(self, text: str, account: Account) -> tuple[str, bool]:
        account.balance += int(text[1:])
        return f"{text[0]} {account.balance}", True


def classes() -> DeclaredApplication:
    """The classes of the API's first generation."""
    builder: Any = wallaroo.ApplicationBuilder("Golden classes")
    builder.new_pipeline("Classes", wallaroo.TCPSourceConfig("127.0.0.1", 0, ClassDecoder()))
    builder.to_state_partition(Deposit(), AccountBuilder(), "accounts", ByLetter(), [*"abc"])
    builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, ClassEncoder()))
    return builder.build()  # type: ignore[no-any-return]


class Side(enum.Enum):
    BUY = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Customer:
    bank: str
    number: Any


NOON, MIDNIGHT = (datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (12, 0))
KEYS: dict[str, tuple[Hashable, Hashable]] = {
    "number": (1, 1.0),
    "large number": (2**70, Decimal(2**70)),
    "fraction": (Fraction(1, 2), 0.5),
    "text": ("ü€", "ü€"),
    "bytes": (b"\x00", b"\x00"),
    "none": (None, None),
    "tuple": (("a", 1), Pair("a", True)),
    "set": (frozenset({1, "a"}), frozenset({"a", 1.0})),
    "moment": (NOON, NOON.astimezone(timezone(timedelta(hours=-7)))),
    "moment in a zone": (MIDNIGHT.astimezone(ZoneInfo("Europe/Berlin")), MIDNIGHT),
    "date": (date(2026, 3, 1), date(2026, 3, 1)),
    "duration": (timedelta(days=1), timedelta(hours=24)),
    "identity": (uuid.UUID(int=7), uuid.UUID(int=7)),
    "range": (range(0, 5, 2), range(0, 6, 2)),
    "path": (PurePosixPath("a/b"), PurePosixPath("a//b")),
    "enumeration": (Side.BUY, Side(1)),
    "class": (Total, Total),
    "object": (Customer("x", 1), Customer("x", 1.0)),
}
"""Pairs of equal keys: state saved under one is found by the other."""


@wallaroo.partition
def odd_key(text: str) -> Any:
    name, _, number = text.partition(", ")
    return KEYS[name][int(number)]


def keys() -> DeclaredApplication:
    """Keys of many classes."""
    builder = wallaroo.ApplicationBuilder("Golden keys")
    builder.new_pipeline("Keys", SOURCE).to_state_partition(count, Total, "totals", odd_key)
    builder.to_sink(SINK)
    return builder.build()


def application_setup(args: Sequence[str]) -> DeclaredApplication:
    made = {
        "plain": plain,
        "states": states,
        "windows": windows,
        "sessions": sessions,
        "joins": joins,
        "timers": timers,
        "classes": classes,
        "keys": keys,
    }
    return made[args[-1]]()
