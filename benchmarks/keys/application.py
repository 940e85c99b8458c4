"""Counts messages by key: for measuring what the number of keys costs.

A message is its key, a flag that asks for an output, a number that the output repeats, and whatever
fills it up.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import wallaroo

MESSAGE = struct.Struct(">QBI")
OUTPUT = struct.Struct(">IIQ")


class Message(NamedTuple):
    """What is counted."""

    key: int
    asks: int
    number: int


class Count:
    """How often a key has been seen."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0


@wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)
def decode(payload: bytes) -> Message:
    """From payload to message."""
    return Message._make(MESSAGE.unpack_from(payload))


@wallaroo.key_extractor
def key_of(message: Message) -> int:
    """The key."""
    return message.key


@wallaroo.state_computation(name="count", state=Count)
def count(message: Message, state: Count) -> tuple[int, int] | None:
    """Count the message; tell the count if it asks."""
    state.seen += 1
    return (message.number, state.seen) if message.asks else None


@wallaroo.encoder
def encode(output: tuple[int, int]) -> bytes:
    """A frame with the message's number and the count."""
    return OUTPUT.pack(12, *output)


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """One pipeline."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    source = wallaroo.source("in", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    counted = source.key_by(key_of).to(count)
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return wallaroo.build_application("keys", counted.to_sink(sink))
