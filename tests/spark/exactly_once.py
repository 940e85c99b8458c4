"""Reads a generator and a file, counts by key, writes a file; all in the directory it is given."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import wallaroo

WAIT_AT = 30_000
"""Number before which the generator waits for the file `go`."""
NUMBERS = 40_000
LINES = 10_000


def application_setup(args: list[str]) -> Any:
    directory = Path(args[0])
    lines = wallaroo.FileSourceConfig(directory / "in.txt", decode, framing="lines")
    counted = (
        wallaroo.source("Numbers", wallaroo.GenSourceConfig(Numbers(directory / "go")))
        .merge(wallaroo.source("Lines", lines))
        .key_by(remainder)
        .to(count)
    )
    sink = wallaroo.FileSinkConfig(directory / "out.txt", encode, framing="lines")
    return wallaroo.build_application("Exactly Once", counted.to_sink(sink))


class Numbers:
    """The numbers from 0 on; some of them not before there is a file."""

    def __init__(self, go: Path) -> None:
        self._go = go

    def initial_value(self) -> int:
        return 0

    def apply(self, previous: int) -> int | None:
        while previous == WAIT_AT and not self._go.exists():
            time.sleep(0.01)
        return previous + 1 if previous + 1 < NUMBERS else None


def decode(line: bytes) -> int:
    return int(line)


@wallaroo.key_extractor
def remainder(number: int) -> int:
    return number % 97


class Seen:
    def __init__(self) -> None:
        self.count = 0


@wallaroo.state_computation(name="count", state=Seen)
def count(number: int, seen: Seen) -> tuple[int, int]:
    seen.count += 1
    return number, seen.count


@wallaroo.encoder
def encode(counted: tuple[int, int]) -> str:
    number, count = counted
    return f"{number} {count}"
