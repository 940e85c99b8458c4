"""Random applications: chains of steps, forks, merges, filters, shared state and windows.

A module that `wallaroo` can load: `application_setup(["7"])` makes the application of seed 7. The
state entities keep every message they met, in order: equal state means equal order per key at
every step.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import wallaroo
from tests.applications.gathering import Gathering
from wallaroo import hours
from wallaroo.api.builder import DeclaredApplication

Message = tuple[str, int]


class Oddity(Exception):
    pass


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(bs: bytes) -> Message:
    return (bs[:1].decode(), int(bs[1:]))


@wallaroo.encoder
def encode(message: Any) -> str:
    return f"{message};"


@wallaroo.computation(name="add one")
def add_one(message: Message) -> Message:
    return (message[0], message[1] + 1)


@wallaroo.computation(name="no fives")
def no_fives(message: Message) -> Message:
    if message[1] % 5 == 0:
        raise Oddity(message)
    return message


@wallaroo.computation_multi(name="twice, now and then")
def twice(message: Message) -> list[Message | None] | None:
    key, number = message
    return None if number % 3 == 0 else [message, None, (key, number + 10)]


@wallaroo.computation_async(name="ask", concurrency=3)
async def ask(message: Message) -> Message | None:
    for _ in range(message[1] % 4):  # answers overtake each other
        await asyncio.sleep(0)
    if message[1] % 11 == 0:
        raise Oddity(message)
    return None if message[1] % 6 == 0 else (message[0], message[1] + 2)


@wallaroo.computation_batch(name="score", max=4)
def score(messages: list[Message]) -> list[Message | None]:
    if any(number % 13 == 0 for _, number in messages):
        raise Oddity(messages)
    return [None if number % 8 == 0 else (key, number + 3) for key, number in messages]


@dataclass
class Numbers:
    all: list[Any] = field(default_factory=list)


@wallaroo.state_computation(name="note", state=Numbers)
def note(message: Message, state: Numbers) -> Message:
    state.all.append(message)
    return (message[0], len(state.all))


@wallaroo.state_computation_multi(name="note and split", state=Numbers)
def note_and_split(message: Message, state: Numbers) -> list[Message]:
    state.all.append(message)
    return [message, (chr(97 + message[1] % 4), message[1])]


@wallaroo.state_computation(name="moody", state=Numbers)
def moody(message: Message, state: Numbers) -> Message:
    state.all.append(message)
    if message[1] % 7 == 0:
        raise Oddity(message)
    return message


@wallaroo.state_computation(name="old note")
def old_note(message: Message, state: Numbers) -> tuple[Message, bool]:
    state.all.append(message)
    return (message[0], len(state.all)), True


class Gather(Gathering[Message, Message]):
    def output(self, key: Any, accumulator: list[Message]) -> Message:
        return (str(key)[:1], sum(number for _, number in accumulator))


@wallaroo.key_extractor
def letter(message: Message) -> str:
    return message[0]


@wallaroo.key_extractor
def parity(message: Message) -> int:
    if message[1] == 13:
        raise Oddity(message)
    return message[1] % 2


def event_time(message: Message) -> int:
    """A message for each hour: no window closes because a test takes some seconds."""
    return hours(message[1])


STATELESS: list[Any] = [add_one, no_fives, twice, ask, score]
STATEFUL: list[Any] = [note, note_and_split, moody]
WINDOWS = [
    wallaroo.count_windows(3).over(Gather),
    wallaroo.range_windows(hours(10)).with_event_time(event_time).over(Gather),
    wallaroo.range_windows(hours(9))
    .with_slide(hours(6))
    .with_delay(hours(5))
    .with_late_data_policy("place-in-oldest-window")
    .with_event_time(event_time)
    .over(Gather),
    wallaroo.range_windows(hours(4))
    .with_late_data_policy("fire-per-message")
    .with_event_time(event_time)
    .over(Gather),
    wallaroo.session_windows(hours(4))
    .with_delay(hours(9))
    .with_event_time(event_time)
    .with_early_results(messages=2)
    .over(Gather()),
    wallaroo.range_windows(hours(12))
    .with_slide(hours(4))
    .with_event_time(event_time)
    .with_early_results(messages=3)
    .over(Gather()),
]


SOURCES = ("one", "two")


def application_setup(args: Sequence[str]) -> DeclaredApplication:
    return declared(random.Random(int(args[0])))


def declared(choose: random.Random) -> DeclaredApplication:
    """An application of either kind, as *choose* decides."""
    return (from_builder if choose.random() < 0.5 else from_pipelines)(choose)


def from_builder(choose: random.Random) -> DeclaredApplication:
    """Pipelines of the second generation, whose stateful steps share few partitions."""
    builder = wallaroo.ApplicationBuilder("random")
    for name in SOURCES[: choose.randint(1, 2)]:
        builder.new_pipeline(name, wallaroo.TCPSourceConfig("", 0, decode))
        for _ in range(choose.randint(1, 4)):
            if choose.random() < 0.5:
                builder.to(choose.choice(STATELESS))
            else:
                key: Any = choose.choice([letter, parity])
                builder.to_state_partition(old_note, Numbers, choose.choice("ABC"), key)
        builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, encode))
    return builder.build()


def from_pipelines(choose: random.Random) -> DeclaredApplication:
    """One pipeline of the third generation, with forks and merges."""
    pipeline = grown(choose, wallaroo.source("one", wallaroo.TCPSourceConfig("", 0, decode)))
    if choose.random() < 0.5:
        other = wallaroo.source("two", wallaroo.TCPSourceConfig("", 0, decode))
        pipeline = pipeline.merge(grown(choose, other))
    if choose.random() < 0.5:
        pipeline = grown(choose, pipeline).merge(grown(choose, pipeline.clone()))
    pipeline = grown(choose, pipeline)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)
    return wallaroo.build_application("random", pipeline.to_sink(sink))


def grown(choose: random.Random, pipeline: wallaroo.Pipeline[Any]) -> wallaroo.Pipeline[Any]:
    """*pipeline* with some more stages."""
    for _ in range(choose.randint(0, 4)):
        match choose.choice("sscckkwo"):
            case "s":
                pipeline = pipeline.to(choose.choice(STATEFUL))
            case "w":
                pipeline = pipeline.to(choose.choice(WINDOWS))
            case "c":
                pipeline = pipeline.to(choose.choice(STATELESS))
            case "k":
                pipeline = pipeline.key_by(choose.choice([letter, parity]))
            case _:
                pipeline = pipeline.collect()
    return pipeline
