"""An application whose keys have timers by event time, and expire."""

from __future__ import annotations

import json
from typing import NamedTuple

import wallaroo

SOURCE = "Readings"
STEP_NS = wallaroo.milliseconds(700)
TTL_NS = wallaroo.minutes(10)
CALLS = 6
"""Calls of a timer that sets itself again."""


class Reading(NamedTuple):
    key: str
    event: int
    sets: bool


class Calls:
    def __init__(self) -> None:
        self.messages = 0
        self.timers = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Reading:
    return Reading(*json.loads(payload))


@wallaroo.key_extractor
def key(reading: Reading) -> str:
    return reading.key


def event_time(reading: Reading) -> int:
    return reading.event


def again(name: str, calls: Calls, timers: wallaroo.Timers) -> str:
    calls.timers += 1
    if calls.timers < CALLS and name == "again":
        timers.set_after(STEP_NS, name)
    if calls.timers == 2:
        raise ValueError(name)
    return f"{timers.key} {name} {timers.now} {calls.timers}"


@wallaroo.state_computation(
    name="call", state=Calls, on_timer=again, ttl=TTL_NS, event_time=event_time
)
def call(reading: Reading, calls: Calls, timers: wallaroo.Timers) -> str:
    calls.messages += 1
    if reading.sets:
        timers.set_after(STEP_NS, "again")
        timers.set_after(2 * STEP_NS, "moved")
        timers.set_after(3 * STEP_NS, "moved")
        timers.set_at(0, "cancelled")
        timers.cancel("cancelled")
    return f"{reading.key} {timers.now} {calls.messages}"


@wallaroo.encoder
def encode(text: str) -> bytes:
    return text.encode()


def application_setup(_args: list[str]) -> wallaroo.DeclaredApplication:
    readings = wallaroo.source(SOURCE, wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)
    return wallaroo.build_application("Timing", readings.key_by(key).to(call).to_sink(sink))
