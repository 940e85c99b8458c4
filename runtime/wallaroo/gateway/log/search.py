"""The search for valid records behind bytes that are none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from wallaroo.gateway.log.records import HEADER, MOST_DATA, NUMBER_AT, SKIPPED, DamagedLog

_NOT_ZERO = re.compile(rb"[^\0]")
_NUMBER_BYTES = 8


class Found(NamedTuple):
    """A valid record."""

    at: int
    end: int
    number: int
    durable: int
    """All records up to this number were on disk when it was appended."""


def record_at(data: bytes | bytearray, seed: int, at: int) -> Found | None:
    """Return the record at a place, whatever its chain; None if there is no valid one."""
    if at + HEADER.size > len(data):
        return None
    crc, length, _, lag, kind, number = HEADER.unpack_from(data, at)
    end = at + HEADER.size + length
    if end > len(data) or crc32(memoryview(data)[at + 4 : end], seed) != crc:
        return None
    # what replaces damaged records is written when all before it is on disk
    return Found(at, end, number, number - 1 - (0 if kind == SKIPPED else lag))


def next_record(
    data: bytes | bytearray, seed: int, at: int, number: int, stop: int = 2**64
) -> Found | None:
    """Find the first valid record behind a place where there is none.

    Args:
        data: Bytes of a segment.
        seed: Checksum of the name of the log.
        at: The place.
        number: Number of the record that should be there.
        stop: Number above those of records that can be in *data*.

    Returns:
        The record; None if there is no valid one whose number is above *number* and fits its place.
    """
    low, high = number + 1, min(stop - 1, number + (len(data) - at) // HEADER.size)
    if low > high:
        return None
    pattern, skipped = _pattern(low, high)
    # the pattern begins within the number, at its first byte that is not arbitrary
    to_header = NUMBER_AT + skipped
    start = at + HEADER.size + to_header
    while match := pattern.search(data, start):
        header = match.start() - to_header
        found = int.from_bytes(data[header + NUMBER_AT : header + HEADER.size], "little")
        start = match.start() + 1
        if low <= found <= number + (header - at) // HEADER.size and found < stop:
            record = record_at(data, seed, header)
            if record is not None:
                return record
        elif not found:
            # not byte by byte through zeros: a number contains something else
            nonzero = _NOT_ZERO.search(data, match.start())
            if nonzero is None:
                return None
            start = max(start, nonzero.start() - (_NUMBER_BYTES - 1) + skipped)
    return None


def proves_durable(data: bytes | bytearray, seed: int, at: int, number: int) -> bool:
    """Whether records behind a place prove that the record that should be there was on disk.

    Args:
        data: Bytes of the last segment.
        seed: Checksum of the name of the log.
        at: The place.
        number: Number of the record that should be there.
    """
    begin, sought = at, number
    while True:
        found = record_at(data, seed, begin)
        if found is None or found.number < sought:
            found = next_record(data, seed, begin, sought)
        if found is None:
            return False
        if found.durable >= number:
            return True
        begin, sought = found.end, found.number + 1


def damage_at(
    file: Path, data: bytes, seed: int, at: int, number: int, stop: int | None = None
) -> DamagedLog:
    """Describe the damage at a place of a segment.

    Args:
        file: The segment.
        data: Its bytes.
        seed: Checksum of the name of the log.
        at: Where there is no valid record.
        number: Number of the record that should be there.
        stop: Number of the first record of the next segment; None if there is none.
    """
    found = next_record(data, seed, at, number, 2**64 if stop is None else stop)
    if found is None:
        last, lost = None if stop is None else stop - 1, data[at : at + MOST_DATA]
    else:
        last, lost = found.number - 1, data[at : min(found.at, at + MOST_DATA)]
    problem = f"at byte {at}, {numbers(number, last or number)} not as written"
    return DamagedLog(file, problem, first=number, last=last, data=lost)


def numbers(first: int, last: int) -> str:
    """The subject of a sentence about records.

    Example:
        >>> numbers(7, 7), numbers(7, 9)
        ('record 7 is', 'records 7 to 9 are')
    """
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def _pattern(low: int, high: int) -> tuple[re.Pattern[bytes], int]:
    r"""An expression for numbers as the header has them, and how many bytes it leaves out.

    Example:
        >>> expression, skipped = _pattern(0x1230, 0x1450)
        >>> expression.pattern, skipped
        (b'[\x12-\x14]\x00\x00\x00\x00\x00\x00', 1)
    """
    free = ((low ^ high).bit_length() + 7) // 8
    fixed = re.escape((low >> 8 * free).to_bytes(_NUMBER_BYTES - free, "little"))
    if not free:
        return re.compile(fixed, re.DOTALL), 0
    ends = (bytes([number >> 8 * (free - 1) & 255]) for number in (low, high))
    return re.compile(b"[" + b"-".join(map(re.escape, ends)) + b"]" + fixed, re.DOTALL), free - 1
