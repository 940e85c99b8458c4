"""An application whose keys have timers by event time, and expire."""

from __future__ import annotations

import json
from typing import NamedTuple

import wallaroo

SOURCE = "Readings"
TTL_NS = wallaroo.minutes(10)
CALLS = 6
"""Calls of a timer that sets itself again."""


class Reading(NamedTuple):
    key: str
    event: int
    step_ns: int
    """Time between the calls of its timer; 0 to set none."""


class Calls:
    def __init__(self) -> None:
        self.messages = 0
        self.timers = 0
        self.step_ns = 0


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
        timers.set_after(calls.step_ns, name)
    if calls.timers == 2:
        raise ValueError(name)
    return f"{timers.key} {name} {timers.now} {calls.timers}"


@wallaroo.state_computation(
    name="call", state=Calls, on_timer=again, ttl=TTL_NS, event_time=event_time
)
def call(reading: Reading, calls: Calls, timers: wallaroo.Timers) -> str:
    calls.messages += 1
    calls.step_ns = step_ns = reading.step_ns
    if step_ns:
        timers.set_after(step_ns, "again")
        timers.set_after(2 * step_ns, "moved")
        timers.set_after(3 * step_ns, "moved")
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
