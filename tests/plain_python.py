"""Random applications of odd but ordinary Python: what they say is what has to happen.

Messages that are changed in place and shared by branches, outputs that are parts of the state,
entities that refer back to themselves, keys that are equal without being alike, decoders that are
not functions of their payload alone. A module that `wallaroo` can load, as `random_applications`:
`application_setup(["7"])` makes the application of seed 7.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any, NamedTuple

import wallaroo
from wallaroo.api.builder import DeclaredApplication

SOURCES = ("one", "two")


class Oddity(Exception):
    pass


# Messages: a letter, a number, and what happened on the way, where they can take notes.


class Open:
    """Anything goes."""

    def __init__(self, letter: str, number: int) -> None:
        self.letter, self.number = letter, number
        self.notes: list[Any] = []


class Slotted:
    __slots__ = ("letter", "nonce", "number")

    def __init__(self, letter: str, number: int) -> None:
        self.letter, self.number = letter, number


class Flat:
    """Attributes in an order of its own."""

    def __init__(self, letter: str, number: int) -> None:
        if number % 2:
            self.number, self.letter = number, letter
        else:
            self.letter, self.number = letter, number


class Fixed(NamedTuple):
    letter: str
    number: int


class Holding(NamedTuple):
    """Fixed, but for what it holds."""

    letter: str
    number: int
    notes: list[Any]


@dataclass(frozen=True)
class Frozen:
    letter: str
    number: int


def as_dict(letter: str, number: int) -> dict[str, Any]:
    return {"letter": letter, "number": number}


def as_list(letter: str, number: int) -> list[Any]:
    return [letter, number]


def held(letter: str, number: int) -> Holding:
    return Holding(letter, number, [])


KINDS: list[Callable[[str, int], Any]] = [
    *(Open, Slotted, Flat, Fixed, Frozen),
    *(as_dict, as_list, held),
]


def letter_of(message: Any) -> str:
    if isinstance(message, dict):
        return str(message["letter"])
    if isinstance(message, list):
        return str(message[0]) if message and isinstance(message[0], str) else "a"
    return str(message.letter)


def number_of(message: Any) -> int:
    if isinstance(message, dict):
        return int(message["number"])
    if isinstance(message, list):
        return message[1] if len(message) > 1 and isinstance(message[1], int) else len(message)
    return int(message.number)


def shown(thing: Any) -> str:
    """What *thing* holds; what was drawn at random is left out."""
    if isinstance(thing, (Open, Slotted, Flat, Frozen)):
        names = ("letter", "number", "notes") if isinstance(thing, Open) else ("letter", "number")
        return f"{type(thing).__name__}({', '.join(shown(getattr(thing, n)) for n in names)})"
    if isinstance(thing, dict):
        return f"{{{', '.join(f'{k}: {shown(v)}' for k, v in thing.items() if k != 'nonce')}}}"
    if isinstance(thing, (list, tuple)):
        return f"{type(thing).__name__}[{', '.join(map(shown, thing))}]"
    return repr(thing)


# Decoders.

_numbers = itertools.count()
_last: Any = None
_page: dict[str, Any] = {}


def parts_of(bs: bytes) -> tuple[str, int]:
    return (bs[:1].decode(), int(bs[1:]))


def decoder(function: Callable[[bytes], Any]) -> Any:
    return wallaroo.decoder(header_length=2, length_fmt=">H")(function)


@decoder
def one_class(bs: bytes) -> Any:
    return Fixed(*parts_of(bs))


@decoder
def many_classes(bs: bytes) -> Any:
    letter, number = parts_of(bs)
    return KINDS[number % len(KINDS)](letter, number)


@decoder
def with_a_nonce(bs: bytes) -> Any:
    letter, number = parts_of(bs)
    return {"letter": letter, "number": number, "nonce": random.random() + next(_numbers)}


@decoder
def one_page(bs: bytes) -> Any:
    """Always the same object, written anew."""
    _page.clear()
    _page["letter"], _page["number"] = parts_of(bs)
    return _page


@decoder
def next_of_last(bs: bytes) -> Any:
    """Goes back to the last message once more."""
    global _last  # noqa: PLW0603
    if _last is not None:
        _last.notes.append("too late")
        _last.number = -1
    _last = Open(*parts_of(bs))
    return _last


DECODERS = [one_class, many_classes, many_classes, with_a_nonce, one_page, next_of_last]


@wallaroo.encoder
def encode(message: Any) -> str:
    return f"{shown(message)};"


# Steps without state.


def with_note(message: Any, note: Any) -> Any:
    """*message*, changed in place where that is possible."""
    if isinstance(message, dict):
        message.setdefault("notes", []).append(note)
    elif isinstance(message, list):
        message.append(note)
    elif isinstance(message, (Open, Holding)):
        message.notes.append(note)
    elif isinstance(message, (Slotted, Flat)):
        message.number += 1
    return message


@wallaroo.computation(name="note in place")
def note_in_place(message: Any) -> Any:
    return with_note(message, "n")


@wallaroo.computation(name="note, then perhaps fail")
def note_then_fail(message: Any) -> Any:
    number = number_of(message)
    with_note(message, "f")
    if number % 5 == 0:
        raise Oddity(number)
    return message


def one_list() -> Any:
    """A step with one list for all its messages; each process has one, as which threads count."""
    own = threading.local()

    @wallaroo.computation(name="one list for all")
    def filled(message: Any) -> Any:
        made: list[Any] = own.__dict__.setdefault("made", [])
        made[:] = [letter_of(message), number_of(message), shown(message)[:40]]
        return made

    return filled


@wallaroo.computation_multi(name="the same twice")
def same_twice(message: Any) -> list[Any]:
    return [message, with_note(message, "t"), None, message]


@wallaroo.computation_multi(name="growing")
def growing(message: Any) -> Iterator[Any]:
    made = [letter_of(message), number_of(message)]
    for _ in range(number_of(message) % 3):
        yield made
        made.append(len(made))


@wallaroo.computation_async(name="note while others wait", concurrency=4)
async def note_async(message: Any) -> Any:
    for _ in range(number_of(message) % 3):
        await asyncio.sleep(0)
    if number_of(message) % 9 == 0:
        raise Oddity(number_of(message))
    return with_note(message, "a")


@wallaroo.computation_batch(name="note many", max=3)
def note_many(messages: list[Any]) -> list[Any]:
    if any(number_of(message) % 8 == 0 for message in messages):
        raise Oddity(len(messages))
    return [with_note(message, "m") for message in messages]


STATELESS: list[Any] = [
    *(note_in_place, note_then_fail, same_twice, growing),
    *(note_async, note_many),
    None,
]


# State.


class Book:
    def __init__(self, owner: Ledger) -> None:
        self.owner = owner

    def enter(self, number: int) -> None:
        self.owner.total += number


class Ledger:
    """Everything that an entity may do with itself."""

    def __init__(self) -> None:
        self.total = 0
        self.items: list[Any] = []
        self.same = self.items
        self.book = Book(self)
        self.me = self
        self.enter = self.book.enter
        self.last: Any = None
        self.count = 0


@dataclass
class Numbers:
    items: list[Any] = field(default_factory=list)
    count: int = 0


@dataclass
class Counter:
    count: int = 0
    last: Any = None


def kept(state: Any) -> list[Any]:
    """The last few items of *state*, which is one list."""
    items: list[Any] = state.items
    del items[:-4]
    return items


@wallaroo.state_computation(name="all so far", state=Numbers)
def all_so_far(message: Any, state: Numbers) -> list[Any]:
    state.items.append(number_of(message))
    return kept(state)


@wallaroo.state_computation_multi(name="messages so far", state=Numbers)
def messages_so_far(message: Any, state: Numbers) -> list[Any]:
    state.items.append(message)
    return kept(state)


@wallaroo.state_computation(name="through the book", state=Ledger)
def through_the_book(message: Any, state: Ledger) -> Any:
    state.book.enter(number_of(message))
    state.enter(1)
    state.me.count += 1
    state.same.append(number_of(message))
    del state.items[:-3]
    return [letter_of(message), state.total, state.count, len(state.items), state.same]


@wallaroo.state_computation(name="the last one", state=Counter)
def the_last_one(message: Any, state: Counter) -> Any:
    """What comes behind may change what is kept."""
    before, state.last = state.last, message
    state.count += 1
    return before if state.count % 3 == 0 and before is not None else message


@wallaroo.state_computation(name="moody", state=Counter)
def moody(message: Any, state: Counter) -> Any:
    state.count += 1
    if number_of(message) % 7 == 0:
        raise Oddity(state.count)
    return [letter_of(message), state.count]


STATEFUL: list[Any] = [all_so_far, messages_so_far, through_the_book, the_last_one, moody]


# Keys.


class Side(Enum):
    LEFT = 1
    RIGHT = 2


_ZONES = [UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5), "five")]


@wallaroo.key_extractor
def letter_key(message: Any) -> str:
    return letter_of(message)


@wallaroo.key_extractor
def number_like(message: Any) -> Any:
    number = number_of(message)
    same: list[Any] = [
        number % 2,
        float(number % 2),
        bool(number % 2),
        -0.0 if number % 2 == 0 else 1,
    ]
    return same[number % 4]


@wallaroo.key_extractor
def moment(message: Any) -> datetime:
    number = number_of(message)
    at = datetime(2026, 1, 1, number % 3, tzinfo=UTC)
    return at.astimezone(_ZONES[number % len(_ZONES)])


@wallaroo.key_extractor
def several(message: Any) -> Any:
    number = number_of(message)
    return (letter_of(message), Side.LEFT if number % 2 else Side.RIGHT, None)


@wallaroo.key_extractor
def after_a_note(message: Any) -> Any:
    """Changes what it looks at."""
    with_note(message, "k")
    return letter_of(message)


KEYS: list[Any] = [letter_key, letter_key, number_like, moment, several, after_a_note]


def application_setup(args: Sequence[str]) -> DeclaredApplication:
    return declared(random.Random(int(args[0])))


def declared(choose: random.Random) -> DeclaredApplication:
    """An application as *choose* decides."""
    source = wallaroo.TCPSourceConfig("", 0, choose.choice(DECODERS))
    pipeline: wallaroo.Pipeline[Any] = grown(choose, wallaroo.source("one", source))
    if choose.random() < 0.4:
        other = wallaroo.TCPSourceConfig("", 0, choose.choice(DECODERS))
        pipeline = pipeline.merge(grown(choose, wallaroo.source("two", other)))
    if choose.random() < 0.5:
        pipeline = grown(choose, pipeline).merge(grown(choose, pipeline.clone()))
    pipeline = grown(choose, pipeline.key_by(choose.choice(KEYS)).to(choose.choice(STATEFUL)))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)
    return wallaroo.build_application("plain", pipeline.to_sink(sink))


def grown(choose: random.Random, pipeline: wallaroo.Pipeline[Any]) -> wallaroo.Pipeline[Any]:
    """*pipeline* with some more stages."""
    for _ in range(choose.randint(0, 3)):
        match choose.choice("sccck"):
            case "s":
                pipeline = pipeline.key_by(choose.choice(KEYS)).to(choose.choice(STATEFUL))
            case "c":
                pipeline = pipeline.to(choose.choice(STATELESS) or one_list())
            case _:
                pipeline = pipeline.key_by(choose.choice(KEYS))
    return pipeline
