"""Counts the messages of each session: for measuring what many timers cost.

The same sessions by windows and, if the arguments say `timers`, by timers of a state. A message is
its key and its time; an output is the key and how many messages the session had.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import wallaroo

MESSAGE = struct.Struct(">QQ")
OUTPUT = struct.Struct(">IQI")
GAP = wallaroo.minutes(10)


class Message(NamedTuple):
    """What is counted."""

    key: int
    at: int


class Count:
    """Messages of a session."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Message:
    """From payload to message."""
    return Message._make(MESSAGE.unpack(payload))


@wallaroo.key_extractor
def key_of(message: Message) -> int:
    """The key."""
    return message.key


def time_of(message: Message) -> int:
    """The time, in nanoseconds since the Unix epoch."""
    return message.at


class Counting(wallaroo.Aggregation[Message, Count, tuple[int, int]]):
    """Counts."""

    def initial_accumulator(self) -> Count:
        """None yet."""
        return Count()

    def update(self, _message: Message, count: Count) -> None:
        """Count the message."""
        count.seen += 1

    def combine(self, one: Count, other: Count) -> Count:
        """Both."""
        both = Count()
        both.seen = one.seen + other.seen
        return both

    def output(self, key: int, count: Count) -> tuple[int, int]:
        """Tell the count."""
        return key, count.seen


def ended(_name: str, count: Count, timers: wallaroo.Timers) -> tuple[int, int]:
    """Tell the count, and begin again."""
    output = timers.key, count.seen
    count.seen = 0
    return output


@wallaroo.state_computation(name="count", state=Count, on_timer=ended, event_time=time_of)
def counted(message: Message, count: Count, timers: wallaroo.Timers) -> tuple[int, int] | None:
    """Count the message; the session ends a gap after it."""
    count.seen += 1
    timers.set_at(message.at + GAP)
    return None


@wallaroo.encoder
def encode(output: tuple[int, int]) -> bytes:
    """A frame with the key and the count."""
    return OUTPUT.pack(12, *output)


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """One pipeline."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    source = wallaroo.source("in", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    windows = wallaroo.session_windows(GAP).with_event_time(time_of).over(Counting)
    sessions = source.key_by(key_of).to(counted if "timers" in args else windows)
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return wallaroo.build_application("sessions", sessions.to_sink(sink))
