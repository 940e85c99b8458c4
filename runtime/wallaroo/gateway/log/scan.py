"""The log as another process than its owner reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from wallaroo.gateway.log.disk import Disk, content
from wallaroo.gateway.log.records import DamagedLog, Record, Walk
from wallaroo.gateway.log.search import damage_at, proves_durable
from wallaroo.gateway.log.segments import HEAD_BYTES, Head, first_number, parsed_head, segment_file


class _Pinned(NamedTuple):
    """A segment that stays as it is until its descriptor is closed, but may become longer."""

    file: Path
    first: int
    descriptor: int


def scan(directory: Path, *, disk: Disk | None = None) -> Iterator[Record]:
    """Yield the records that the log in a directory has at some moment, from the oldest one on.

    Nothing is changed. The owner may append and release meanwhile; the last records may not be on
    disk yet. The payloads are views of what was read of a whole segment.

    Args:
        directory: The directory of the log; there are no records if it is missing.
        disk: For tests.

    Raises:
        DamagedLog: Records that were on disk are missing, or are not as they were written.
        RuntimeFailure: Another version of the package has written the log.
    """
    disk = disk or Disk()
    with contextlib.ExitStack() as stack:
        segments = _pinned_segments(disk, directory, stack)
        heads = [_head(disk, segment) for segment in segments]
        if heads and heads[-1] is None:
            # it was about to begin
            segments.pop()
        for segment, head, following in zip(segments, heads, [*segments[1:], None], strict=False):
            if head is None:
                problem = "its first bytes, which say of which log it is, are not as written"
                raise DamagedLog(segment.file, problem, first=segment.first, last=None)
            yield from _records(disk, segment, head, following.first if following else None)


def _pinned_segments(disk: Disk, directory: Path, stack: contextlib.ExitStack) -> list[_Pinned]:
    """Open and lock segments, so that the owner uses none of their files again.

    The newest one first: one that is released meanwhile is left out, with all before it.
    """
    pinned: list[_Pinned] = []
    while not pinned:
        numbers = [first_number(name) for name in disk.names(directory)]
        firsts = sorted((first for first in numbers if first is not None), reverse=True)
        if not firsts:
            break
        for first in firsts:
            file = segment_file(directory, first)
            try:
                descriptor = disk.open(file)
            except FileNotFoundError:
                break
            stack.callback(disk.close, descriptor)
            if not disk.lock(descriptor, shared=True) or not disk.is_at(descriptor, file):
                break
            pinned.insert(0, _Pinned(file, first, descriptor))
    return pinned


def _head(disk: Disk, segment: _Pinned) -> Head | None:
    return parsed_head(content(disk, segment.descriptor, HEAD_BYTES), segment.file)


def _records(disk: Disk, segment: _Pinned, head: Head, stop: int | None) -> Iterator[Record]:
    """Yield the records of a segment, up to the number *stop* if another one follows it."""
    seed, shift = crc32(head.name), head.address - HEAD_BYTES
    at, number, chain = HEAD_BYTES, segment.first, head.chain
    is_suspected = False
    while True:
        data = content(disk, segment.descriptor)
        walk = Walk(
            data, seed, at=at, number=number, chain=chain, shift=shift,
            stop=2**64 if stop is None else stop,
        )  # fmt: skip
        yield from walk
        is_suspected = is_suspected and walk.at == at
        at, number, chain = walk.at, walk.number, walk.chain
        if number == stop:
            return
        if stop is None and (at == len(data) or not proves_durable(data, seed, at, number)):
            return
        # what is written while it is read may seem to be damaged
        if is_suspected:
            raise damage_at(segment.file, data, seed, at, number, stop)
        is_suspected = True
