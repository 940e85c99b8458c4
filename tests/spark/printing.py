"""An application whose every function prints and logs, in every way that Python has, and much."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog

import wallaroo

COUNT = 400
"""Messages of each source."""
FLOOD_AT = 200
"""The message at which functions print much; no source gives it before there is a file `flood`."""
_FLOOD = "x" * 1000
_FLOOD_LINES = 300

log = logging.getLogger("printing")
other_log = structlog.get_logger()
_said: set[tuple[int, str]] = set()


def say(where: str) -> None:
    """Say *where* in every way, once in each process."""
    if (os.getpid(), where) in _said:
        return
    _said.add((os.getpid(), where))
    print(f"{where} by print")
    sys.stdout.write(f"{where} by sys.stdout\n")
    sys.stdout.buffer.write(f"{where} by sys.stdout.buffer\n".encode())
    os.write(1, f"{where} by os.write to 1\n".encode())
    os.write(2, f"{where} by os.write to 2\n".encode())
    print(f"{where} by sys.stderr", file=sys.stderr)
    log.info("%s by logging", where)
    other_log.info(f"{where} by structlog")
    warnings.warn(f"{where} by warnings", stacklevel=2)


def flood() -> None:
    """Say more than pipes hold, in one go."""
    for _ in range(_FLOOD_LINES):
        print(_FLOOD)
        print(_FLOOD, file=sys.stderr)
        log.info(_FLOOD)
        os.write(1, _FLOOD.encode() + b"\n")
        os.write(2, _FLOOD.encode())


def say_all(where: str, number: int) -> None:
    """Say *where*, and much at one message."""
    say(where)
    if number == FLOOD_AT:
        flood()


def wait_for_flood(directory: Path) -> None:
    """Wait until the test wants a flood."""
    while not (directory / "flood").exists():
        time.sleep(0.01)


say("import")


def application_setup(args: list[str]) -> Any:
    """Three pipelines, each with a source and a sink of another kind."""
    say("application_setup")
    subprocess.run(["/bin/sh", "-c", "echo setup by a program; echo and >&2"], check=True)
    for _ in range(_FLOOD_LINES):
        print(_FLOOD)
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    directory = Path(args[-1])
    builder = wallaroo.ApplicationBuilder("Printing")
    sources = {
        "Sent": wallaroo.TCPSourceConfig(host, port, Decoder()),
        "Made": wallaroo.GenSourceConfig(Numbers(directory)),
        "Read": wallaroo.SourceConfig(Lines(directory), decode),
    }
    for name, source in sources.items():
        builder.new_pipeline(name, source)
        builder.to(step)
        builder.to_state_partition(count, Count, f"counts of {name}", key)
        builder.to_sink(wallaroo.SinkConfig(Written(directory / name), encode))
    return builder.build()


class Decoder:
    """Frames of a length that its own function reads."""

    def header_length(self) -> int:
        """Bytes of the header."""
        say("header_length")
        return 4

    def payload_length(self, header: bytes) -> int:
        """Bytes of the payload."""
        say("payload_length")
        return int.from_bytes(header, "big")

    def decode(self, payload: bytes) -> int:
        """A number."""
        say_all("decode", int(payload))
        return int(payload)


class Numbers:
    """A generator."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def initial_value(self) -> int:
        """The first number."""
        say("initial_value")
        return 1

    def apply(self, previous: int) -> int | None:
        """The next number."""
        if previous + 1 == FLOOD_AT:
            wait_for_flood(self.directory)
        say_all("apply", previous)
        return previous + 1 if previous < COUNT else None


class Lines(wallaroo.MessageSource[int]):
    """A source of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, position: int | None) -> Iterator[tuple[bytes, int]]:
        """Numbers."""
        for number in range((position or 0) + 1, COUNT + 1):
            if number == FLOOD_AT:
                wait_for_flood(self.directory)
            say_all("read", number)
            yield b"%d" % number, number


class Written(wallaroo.OutputSink):
    """A sink of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, _first: int, outputs: Sequence[bytes]) -> None:
        """Append to a file."""
        say("write")
        if (self.path.parent / "flood").exists():
            flood()
        with self.path.open("ab") as file:
            file.write(b"".join(outputs))


class Count:
    """State."""

    def __init__(self) -> None:
        say("state")
        self.messages = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> int:
    """A number."""
    say_all("decoder", int(payload))
    return int(payload)


@wallaroo.computation(name="step")
def step(number: int) -> int:
    """The number itself."""
    say_all("computation", number)
    return number


@wallaroo.partition
def key(number: int) -> str:
    """One of seven."""
    say_all("key", number)
    return str(number % 7)


@wallaroo.state_computation(name="count")
def count(number: int, state: Count) -> tuple[int, bool]:
    """The number itself."""
    say_all("state computation", number)
    state.messages += 1
    return number, True


@wallaroo.encoder
def encode(number: int) -> bytes:
    """A line."""
    say_all("encoder", number)
    return b"%d\n" % number
