"""The search for valid records behind bytes that are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from wallaroo.gateway.log.records import (
    HEADER,
    LOW_BITS,
    MOST_DATA,
    MOST_NUMBER,
    NUMBER_AT,
    SKIPPED,
    DamagedLog,
    Extent,
)

_NUMBER_BYTES = 8


class Found(NamedTuple):
    """A valid record."""

    at: int
    end: int
    number: int
    last: int
    """The last number that it stands for."""
    durable: int
    """All records up to this number were on disk when it was appended."""


def record_at(extent: Extent, at: int) -> Found | None:
    """Return the record at a place, whatever its chain; None if there is no valid one."""
    data, seed, shift = extent
    if at + HEADER.size > len(data):
        return None
    crc, length, _, lag, kind, number = HEADER.unpack_from(data, at)
    end = at + HEADER.size + length
    if end > len(data):
        return None
    if crc32(memoryview(data)[at + 4 : end], seed) ^ (at + shift & LOW_BITS) != crc:
        return None
    if kind == SKIPPED:
        # it is written when all before it is on disk
        return Found(at, end, number, number + lag, number - 1)
    return Found(at, end, number, number, number - 1 - lag)


def next_record(extent: Extent, at: int, number: int, stop: int = MOST_NUMBER) -> Found | None:
    """Find the first valid record behind a place where there is none.

    Args:
        extent: Bytes of a segment.
        at: The place.
        number: Number of the record that should be there.
        stop: Number above those of records that can be in them.

    Returns:
        The record; None if there is no valid one whose number is above *number* and fits its place.
    """
    data = extent.data
    low, high = number + 1, min(stop - 1, number + (len(data) - at) // HEADER.size)
    if low > high:
        return None
    pattern, skipped = _pattern(low, high)
    to_header = NUMBER_AT + skipped
    start = at + HEADER.size + to_header
    end = min(len(data), len(data.rstrip(b"\0")) + _NUMBER_BYTES)
    while match := pattern.search(data, start, end):
        header = match.start() - to_header
        found = int.from_bytes(data[header + NUMBER_AT : header + HEADER.size], "little")
        if low <= found <= min(high, number + (header - at) // HEADER.size):
            record = record_at(extent, header)
            if record is not None:
                return record
        start = match.start() + 1
    return None


def valid_records(extent: Extent, at: int, number: int) -> Iterator[Found]:
    """Yield all valid records from a place on, and pass over what is none.

    Args:
        extent: Bytes of a segment.
        at: The place.
        number: Number of the record that should be there.
    """
    while True:
        found = record_at(extent, at)
        if found is None or found.number < number:
            found = next_record(extent, at, number)
        if found is None:
            return
        yield found
        at, number = found.end, found.last + 1


def proves_durable(extent: Extent, at: int, number: int) -> bool:
    """Whether records behind a place prove that the record that should be there was on disk.

    Args:
        extent: Bytes of the last segment.
        at: The place.
        number: Number of the record that should be there.
    """
    return any(found.durable >= number for found in valid_records(extent, at, number))


def damage_at(
    file: Path, extent: Extent, at: int, number: int, stop: int | None = None
) -> DamagedLog:
    """Describe the damage at a place of a segment.

    Args:
        file: The segment.
        extent: Its bytes.
        at: Where there is no valid record.
        number: Number of the record that should be there.
        stop: Number of the first record of the next segment; None if there is none.
    """
    found = next_record(extent, at, number, MOST_NUMBER if stop is None else stop)
    if found is None:
        last, end = None if stop is None else stop - 1, at + MOST_DATA
    else:
        last, end = found.number - 1, min(found.at, at + MOST_DATA)
    problem = f"at byte {at}, {numbers(number, last or number)} not as written"
    return DamagedLog(file, problem, first=number, last=last, data=bytes(extent.data[at:end]))


def numbers(first: int, last: int) -> str:
    """The subject of a sentence about records.

    Example:
        >>> numbers(7, 7), numbers(7, 9)
        ('record 7 is', 'records 7 to 9 are')
    """
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def _pattern(low: int, high: int) -> tuple[re.Pattern[bytes], int]:
    r"""An expression for headers with numbers from *low* to *high*, and others.

    It matches from the first byte of the number on that is not arbitrary, as it is faster to search
    for bytes of which there are few; the kind before the number is not zero.

    Returns:
        The expression, and how many bytes of the number are before what it matches.

    Example:
        >>> expression, skipped = _pattern(0x1230, 0x1450)
        >>> expression.pattern, skipped
        (b'[\x12-\x14](?<=[^\x00].{2})\x00\x00\x00\x00\x00\x00', 1)
    """
    free = max(((low ^ high).bit_length() + 7) // 8, 1)
    first, last = (bytes([number >> 8 * (free - 1) & 255]) for number in (low, high))
    fixed = re.escape((low >> 8 * free).to_bytes(_NUMBER_BYTES - free, "little"))
    expression = b"[%b-%b](?<=[^\x00].{%d})%b" % (re.escape(first), re.escape(last), free, fixed)
    return re.compile(expression, re.DOTALL), free - 1
