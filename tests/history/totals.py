"""An application that adds numbers by name."""

from __future__ import annotations

from dataclasses import dataclass, field

import wallaroo
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve


@dataclass
class Total:
    sum: int = 0
    seen: list[int] = field(default_factory=list)


FACTOR = {0: 1}
"""What messages count; stands for code or a service that changes."""


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data: bytes) -> tuple[str, int]:
    name, _, number = data.decode().partition(" ")
    return name, int(number)


@wallaroo.computation_multi(name="split")
def split(message: tuple[str, int]) -> list[tuple[str, int]]:
    return [(name, message[1]) for name in message[0].split("+")]


@wallaroo.key_extractor
def name_of(message: tuple[str, int]) -> str:
    return message[0]


@wallaroo.state_computation(name="add", state=Total)
def add(message: tuple[str, int], total: Total) -> tuple[str, int]:
    if message[1] < 0:
        total.seen.append(-1)
        raise ValueError(message[1])
    total.sum += FACTOR[0] * message[1]
    total.seen.append(message[1])
    return message[0], total.sum


@wallaroo.encoder
def encode(message: tuple[str, int]) -> str:
    return f"{message[0]}={message[1]};"


def totals() -> Application:
    """An application with the totals of names."""
    pipeline = wallaroo.source("numbers", wallaroo.TCPSourceConfig("", 0, decode))
    pipeline = pipeline.to(split).key_by(name_of).to(add)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)
    return resolve(wallaroo.build_application("Totals", pipeline.to_sink(sink)))
