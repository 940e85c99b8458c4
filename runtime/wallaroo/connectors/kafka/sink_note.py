"""The note of a sink's transaction with its group: the number of the next output, and refusals.

Outputs that the topic does not take are noted until they are dead letters: a gateway that is killed
before finds them there. The note is the metadata of an offset; the offset itself is the end of the
topic's first partition, as tools that show the lag of groups expect it.
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
    reason: str | None = None
    """What its dead letter says; None for what the code means."""


def noted(number: int, codes: Mapping[int, int]) -> str:
    """The *number* of the next output, and the codes of refused ones by their numbers, as a note.

    Outputs for which the note has no room are left out: those of more than some hundred ranges.

    Example:
        >>> noted(5001, {4: 10, 5: 10, 6: 10, 8: 10, 5000: 32})
        '5001|10:4-6,8;32:5000'
    """
    return f"{number}|{_noted_codes(codes)}"


def _noted_codes(codes: Mapping[int, int]) -> str:
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


def found_in(note: str) -> tuple[int, dict[int, int]]:
    """What `noted` was given; the number 0 if something else has written the note.

    Example:
        >>> found_in("5001|10:4-6,8;32:5000")
        (5001, {4: 10, 5: 10, 6: 10, 8: 10, 5000: 32})
        >>> found_in("")
        (0, {})
    """
    number, bar, refused = note.partition("|")
    if not (bar and number.isdecimal()):
        return 0, {}
    codes: dict[int, int] = {}
    for part in filter(None, refused.split(";")):
        code, _, ranges = part.partition(":")
        for text in ranges.split(","):
            first, _, last = text.partition("-")
            codes |= dict.fromkeys(range(int(first), int(last or first) + 1), int(code))
    return int(number), codes


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each range of *numbers*, which are in order."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
