"""Counts the messages of each key, for tests that need state but not a particular application.

Tests import its parts, or run it by its path. A message is text.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import wallaroo

HERE = Path(__file__).parent


def application_setup(args: list[str]) -> Any:
    """Counts each text, then its first letter: `text: count of text: count of letter`."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Counting")
    builder.new_pipeline("Texts", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    builder.to_state_partition(count, Count, "texts", whole)
    builder.to_state_partition(count, Count, "letters", first_letter)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, as_line))
    return builder.build()


class Count:
    """The state of a key."""

    def __init__(self) -> None:
        self.messages = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    """A text."""
    return payload.decode()


@wallaroo.partition
def whole(text: str) -> str:
    """The text is its own key."""
    return text


@wallaroo.partition
def first_letter(text: str) -> str:
    """The key is the first letter."""
    return text[0]


@wallaroo.state_computation(name="count")
def count(text: Any, entity: Any) -> tuple[str, bool]:
    """The text with its count; the text `wait` waits until a test has made the file `continue`."""
    if text == "wait":
        HERE.joinpath("waiting").touch()
        while not HERE.joinpath("continue").exists():
            time.sleep(0.01)
    entity.messages += 1
    return f"{text}: {entity.messages}", True


@wallaroo.state_computation(name="count", state=Count)
def count_of_pipeline(text: str, entity: Count) -> str:
    """The same, for pipelines of the last API."""
    entity.messages += 1
    return f"{text}: {entity.messages}"


@wallaroo.encoder
def encode(text: str) -> str:
    """The text."""
    return text


@wallaroo.encoder
def as_line(text: str) -> str:
    """The text as a line."""
    return f"{text}\n"
