"""Records of the log, their format, and what may be wrong with them.

A record is a header and a payload. The header contains a checksum of the name of the log, of the
address of the record and of all that follows, and the checksum of the record before. So bytes of
files that are used again, of other logs, of copies of this log that were continued separately, or
of records that are repeated or in another place, are never taken for a record.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from wallaroo.errors import RESTORE, DamagedFile

SNAPSHOT = 1
"""Kind of the first record of each segment: the state of the owner before all that follows."""
SKIPPED = 2
"""Kind of a record that stands in the place of damaged ones.

Other kinds, up to 255, are the owner's.
"""
HEADER = struct.Struct("<IIIIBQ")
"""Checksum, length of the payload, chain, lag, kind and number.

The checksum is the CRC-32 of the name of the log and of what follows, XORed with the address.

The chain is the checksum of the record before. The lag is how many of the records before it were
not surely on disk when a record was appended; for one of kind `SKIPPED`, how many numbers it stands
for besides its own.
"""
NUMBER_AT = HEADER.size - 8
"""Where the number is in the header."""
ANY = -1
"""The chain of a record whose predecessor is unknown."""
LOW_BITS = 2**32 - 1
"""The part of an address that a checksum takes in."""
MOST_NUMBER = 2**64 - 1
"""The highest number."""
MOST_BYTES = 2**32 - 1
"""The longest payload."""
MOST_DATA = 1024**2
"""How much is told of what is in the place of damaged records."""
_WITHOUT = "their bytes are kept as dead letters, and the application resumes without them"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


Part = bytes | bytearray | memoryview
"""A part of a payload; a `memoryview` is one of single bytes."""


class Record(NamedTuple):
    """A record of the log.

    The payload is of type `bytes`, or `memoryview` where its method says so.
    """

    number: int
    kind: int
    address: int
    """Where it begins; addresses grow over all segments."""
    payload: bytes | memoryview


class NoRoom(OSError):
    """The disk is full, or a quota or the size limit of files is reached.

    Nothing is lost: call `Log.write` again when there is room.
    """


class DamagedLog(DamagedFile):
    """Records that were on disk are not there as they were written.

    Attributes:
        file: The segment.
        first: Number of the first record that is not as it was written.
        last: Number of the last one before the next valid record; None if nothing valid follows.
        data: What is in their place, at most 1 MiB of it.
        room: The longest payload of a record that can stand in their place; None if none can.
    """

    def __init__(
        self,
        file: Path,
        problem: str,
        *,
        first: int,
        last: int | None,
        data: bytes = b"",
        room: int | None = None,
    ) -> None:
        super().__init__(f"{file} is damaged: {problem}; {RESTORE}")
        self.file = file
        self.first = first
        self.last = last
        self.data = data
        self.room = room

    def __str__(self) -> str:
        """What is damaged, and what to do about it."""
        skip = "" if self.room is None else f", or start once with --skip-damaged: {_WITHOUT}"
        return f"{super().__str__()}{skip}"


def is_no_room(error: OSError) -> bool:
    """Whether *error* means that nothing more can be written at the moment."""
    return error.errno in _FULL


class Extent(NamedTuple):
    """Bytes of a segment, with what is needed to check the records in them."""

    data: bytes | bytearray
    seed: int
    """Checksum of the name of the log."""
    shift: int
    """Difference between addresses and places in the bytes."""


class Walk:
    """Reads one valid record after the other from bytes, as far as there are any.

    Args:
        extent: The bytes.
        at: Where the first record begins.
        number: Its number.
        chain: Checksum of the record before, or `ANY`.
        stop: Number of the first record that is not read.

    Attributes:
        at: Where the record after the last one that was read begins.
        number: Its number.
        chain: Its chain.
    """

    def __init__(
        self, extent: Extent, *, at: int, number: int, chain: int, stop: int = MOST_NUMBER
    ) -> None:
        self._extent = extent
        self._stop = stop
        self.at = at
        self.number = number
        self.chain = chain

    def __iter__(self) -> Iterator[Record]:
        """Yield the records; their payloads are views of the bytes."""
        (data, seed, shift), stop = self._extent, self._stop
        view = memoryview(data)
        at, number, chain = self.at, self.number, self.chain
        unpack, new = HEADER.unpack_from, tuple.__new__
        size, header = len(view), HEADER.size
        last = size - header
        try:
            while at <= last and number < stop:
                crc, length, before, lag, kind, found = unpack(view, at)
                begin = at + header
                end = begin + length
                if (
                    found != number
                    or (before != chain and chain != ANY)  # noqa: PLR1714 - in the hot path
                    or end > size
                    or crc32(view[at + 4 : end], seed) ^ (at + shift & LOW_BITS) != crc
                ):
                    break
                place, at, number, chain = at, end, number + 1, crc
                payload = view[begin:end]
                if kind == SKIPPED:
                    number, chain, payload = number + lag, ANY, skipped_payload(payload)
                yield new(Record, (found, kind, place + shift, payload))
        finally:
            self.at, self.number, self.chain = at, number, chain


_LENGTH = struct.Struct("<I")


def room_for_skipped(extent: int) -> int | None:
    """The longest payload of a record `SKIPPED` that fills *extent* bytes; None if none can.

    Example:
        >>> room_for_skipped(100), room_for_skipped(27), room_for_skipped(7)
        (71, 0, None)
    """
    if not HEADER.size <= extent <= HEADER.size + MOST_BYTES:
        return None
    return max(extent - HEADER.size - _LENGTH.size, 0)


def packed_skipped(
    seed: int, damage: DamagedLog, address: int, chain: int, payload: bytes, extent: int
) -> bytes:
    """Return the bytes of a record `SKIPPED`.

    Args:
        seed: Checksum of the name of the log.
        damage: The damage in whose place it stands.
        address: Its address.
        chain: Checksum of the record before.
        payload: What the owner puts into it.
        extent: Its length.

    Raises:
        ValueError: The payload is longer than there is room for.
    """
    if damage.last is None or damage.room is None or len(payload) > damage.room:
        msg = f"{len(payload)} bytes do not fit in the place of {extent} damaged ones"
        raise ValueError(msg)
    if payload:
        payload = _LENGTH.pack(len(payload)) + payload
    filled = payload.ljust(extent - HEADER.size, b"\0")
    others = damage.last - damage.first
    record = HEADER.pack(0, len(filled), chain, others, SKIPPED, damage.first) + filled
    crc = crc32(memoryview(record)[4:], seed) ^ (address & LOW_BITS)
    return crc.to_bytes(4, "little") + record[4:]


def skipped_payload(filled: memoryview) -> memoryview:
    """Return what the owner put into a record `SKIPPED` whose payload is *filled*."""
    if len(filled) < _LENGTH.size:
        return filled[:0]
    (length,) = _LENGTH.unpack_from(filled)
    return filled[_LENGTH.size : _LENGTH.size + length]
