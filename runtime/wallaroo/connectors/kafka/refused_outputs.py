"""Outputs that a topic does not take, until they are dead letters.

A transaction notes them beside the number of the next output: a gateway that is killed before they
are dead letters finds them there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_MOST_LETTERS = 4000
"""Letters of a note; brokers take 4096 (`offset.metadata.max.bytes`)."""


class RefusedRecord(NamedTuple):
    """Why a topic does not take an output."""

    code: int
    """Code of the error, as `KafkaError` has it."""
    reason: str


def noted(codes: Mapping[int, int]) -> str:
    """The codes of refused outputs by their numbers, as a transaction notes them.

    Outputs for which the note has no room are left out: those of more than some hundred ranges.

    Example:
        >>> noted({4: 10, 5: 10, 6: 10, 8: 10, 5000: 32})
        '10:4-6,8;32:5000'
    """
    by_code: dict[int, list[int]] = defaultdict(list)
    for number, code in sorted(codes.items()):
        by_code[code].append(number)
    note = ""
    for code, numbers in by_code.items():
        before = f"{';' if note else ''}{code}:"
        for first, last in _ranges(numbers):
            text = before + (f"{first}" if first == last else f"{first}-{last}")
            if len(note) + len(text) > _MOST_LETTERS:
                return note
            note, before = note + text, ","
    return note


def found_in(note: str) -> dict[int, int]:
    """What `noted` was given.

    Example:
        >>> found_in("10:4-6,8;32:5000")
        {4: 10, 5: 10, 6: 10, 8: 10, 5000: 32}
    """
    codes: dict[int, int] = {}
    for part in filter(None, note.split(";")):
        code, _, ranges = part.partition(":")
        for text in ranges.split(","):
            first, _, last = text.partition("-")
            codes |= dict.fromkeys(range(int(first), int(last or first) + 1), int(code))
    return codes


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each range of *numbers*, which are in order."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
