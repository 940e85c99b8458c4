"""An application with its own serialization, for state and for windows; see `applications`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import wallaroo
from tests.golden.applications import CENTURY, SINK, SOURCE, event_time, letter
from wallaroo.api.builder import DeclaredApplication


def serialize(thing: Any) -> bytes:
    told = thing if type(thing) is str else [thing.messages]
    return json.dumps(told).encode()


def deserialize(data: bytes) -> Any:
    told = json.loads(data)
    return told if type(told) is str else Tally(*told)


class Tally:
    def __init__(self, messages: int = 0) -> None:
        self.messages = messages


@wallaroo.state_computation(name="tally", state=Tally)
def count(text: str, tally: Tally) -> str:
    tally.messages += 1
    return f"{text} {tally.messages}"


class Number(wallaroo.Aggregation[str, Tally, str]):
    def initial_accumulator(self) -> Tally:
        return Tally()

    def update(self, _message: str, accumulator: Tally) -> None:
        accumulator.messages += 1

    def combine(self, one: Tally, other: Tally) -> Tally:
        return Tally(one.messages + other.messages)

    def output(self, key: Any, accumulator: Tally) -> str:
        return f"{key}: {accumulator.messages}"


def application_setup(_args: Sequence[str]) -> DeclaredApplication:
    source = wallaroo.source("Own", SOURCE).key_by(letter)
    windows = wallaroo.range_windows(CENTURY).with_event_time(event_time).over(Number)
    gathered = source.clone().to(windows)
    return wallaroo.build_application("Golden own", source.to(count).merge(gathered).to_sink(SINK))
