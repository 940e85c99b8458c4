"""The log as another process than its owner reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

from wallaroo.gateway.log.disk import Disk, content
from wallaroo.gateway.log.records import ANY, MOST_NUMBER, DamagedLog, Extent, Record, Walk
from wallaroo.gateway.log.search import damage_at, proves_durable
from wallaroo.gateway.log.segments import (
    HEAD_BYTES,
    Head,
    first_number,
    kept_segments,
    parsed_head,
    segment_file,
)


class _Pinned(NamedTuple):
    """A segment that stays as it is until its descriptor is closed, but may become longer."""

    file: Path
    first: int
    descriptor: int


def scan(directory: Path, *, kept: bool = False, disk: Disk | None = None) -> Iterator[Record]:
    """Yield the records that the log in a directory has at some moment, from the oldest one on.

    Nothing is changed. The owner may append and release meanwhile; the last records may not be on
    disk yet. The payloads are views of what was read of a whole segment.

    Args:
        directory: The directory of the log; there are no records if it is missing.
        kept: Whether to begin with what is kept of released segments.
        disk: For tests.

    Raises:
        DamagedLog: Records that were on disk are missing, or are not as they were written.
        RuntimeFailure: Another version of the package has written the log.
    """
    disk = disk or Disk()
    with contextlib.ExitStack() as stack:
        segments = _pinned_segments(disk, directory, stack)
        if kept and segments:
            segments = [*_pinned_kept(disk, directory, segments[0], stack), *segments]
        yield from _Scan(disk).records(segments)


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
            if (segment := _pin(disk, file, first, stack)) is None:
                break
            pinned.insert(0, segment)
    return pinned


def _pin(disk: Disk, file: Path, first: int, stack: contextlib.ExitStack) -> _Pinned | None:
    """Open and lock a segment; None if its owner has removed it or uses its file again."""
    try:
        descriptor = disk.open(file)
    except FileNotFoundError:
        return None
    stack.callback(disk.close, descriptor)
    if not disk.lock(descriptor, shared=True) or not disk.is_at(descriptor, file):
        return None
    return _Pinned(file, first, descriptor)


def _pinned_kept(
    disk: Disk, directory: Path, following: _Pinned, stack: contextlib.ExitStack
) -> list[_Pinned]:
    """Open and lock the segments that are kept, and are before one that is not."""
    head = parsed_head(content(disk, following.descriptor, HEAD_BYTES), following.file)
    pinned: list[_Pinned] = []
    for first, file in reversed([] if head is None else kept_segments(disk, directory, head)[0]):
        if (segment := _pin(disk, file, first, stack)) is None:
            break
        pinned.insert(0, segment)
    return pinned


class PinnedLog:
    """A log whose segments stay as they are, whatever its owner does; a context manager.

    Those that the owner releases take space until the block, or this process, ends.

    Args:
        directory: The directory of the log; its owner may append and release.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._disk = directory, Disk()
        self._opened = contextlib.ExitStack()
        self._segments: list[_Pinned] = []

    def __enter__(self) -> Self:
        self._segments = _pinned_segments(self._disk, self._directory, self._opened)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._opened.close()

    def extend(self) -> bool:
        """Also pin the segments that have begun since; returns whether there is no gap before."""
        found = _pinned_segments(self._disk, self._directory, self._opened)
        last = self._segments[-1].first if self._segments else 0
        self._segments += [segment for segment in found if segment.first > last]
        return not last or any(segment.first == last for segment in found)

    @property
    def size(self) -> int:
        """Bytes that a copy has at most."""
        return sum(self._disk.size(segment.descriptor) for segment in self._segments)

    def copy(
        self, is_beyond: Callable[[Record], bool], to: Callable[[int, str, int], None]
    ) -> tuple[bytes, int]:
        """Copy the records that the log has at some moment after it was pinned.

        Args:
            is_beyond: Whether a record is left out, and with it all that follow.
            to: Copies, from a descriptor, to the file of a name, the first bytes, that many.

        Returns:
            Name of the log, and number of the last record; 0 if there is none.

        Raises:
            DamagedLog: Records that were on disk are missing, or are not as they were written.
        """
        scanned, last = _Scan(self._disk), 0
        for record in scanned.records(self._segments):
            if is_beyond(record):
                end = record.address
                break
            last = record.number
        else:
            end = scanned.end
        heads = [
            head
            for file, _, descriptor in self._segments
            if (head := parsed_head(content(self._disk, descriptor, HEAD_BYTES), file)) is not None
        ]
        ends = [*(head.address for head in heads[1:]), end]
        for segment, head, stop in zip(self._segments, heads, ends, strict=False):
            if head.address < end:
                length = HEAD_BYTES + min(stop, end) - head.address
                to(segment.descriptor, segment.file.name, length)
        return heads[0].name if heads else b"", last


class _Scan:
    """Reads one segment after the other.

    Attributes:
        end: Address after the last record of the segments that are read.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._previous: Head | None = None
        self.end = 0
        self._chain = ANY

    def records(self, segments: Sequence[_Pinned]) -> Iterator[Record]:
        for segment, following in zip(segments, [*segments[1:], None], strict=False):
            data = content(self._disk, segment.descriptor)
            head = parsed_head(data, segment.file)
            if head is None and following is None and not data[HEAD_BYTES:].strip(b"\0"):
                # it was about to begin
                return
            if head is None or head.first != segment.first or not self._continues(head):
                problem = "its first bytes do not say that it is the segment of this name"
                raise DamagedLog(segment.file, problem, first=segment.first, last=None)
            yield from self._segment(segment, head, data, following.first if following else None)
            self._previous = head

    def _continues(self, head: Head) -> bool:
        """Whether a head is that of the next segment."""
        return self._previous is None or (
            head.name == self._previous.name
            and (head.previous, head.previous_address) == self._previous[1:3]
            and head.address == self.end
            and self._chain in {head.chain, ANY}
        )

    def _segment(
        self, segment: _Pinned, head: Head, data: bytes, stop: int | None
    ) -> Iterator[Record]:
        """Yield the records of a segment, up to the number *stop* if another one follows it."""
        seed, shift = crc32(head.name), head.address - HEAD_BYTES
        at, number, chain = HEAD_BYTES, head.first, head.chain
        is_suspected = False
        while True:
            extent = Extent(data, seed, shift)
            walk = Walk(extent, at=at, number=number, chain=chain, stop=stop or MOST_NUMBER)
            yield from walk
            is_suspected = is_suspected and walk.at == at
            at, number, chain = walk.at, walk.number, walk.chain
            if number == stop:
                break
            if stop is None and (at == len(data) or not proves_durable(extent, at, number)):
                break
            # what is written while it is read may seem to be damaged
            if is_suspected:
                raise damage_at(segment.file, extent, at, number, stop)
            is_suspected = True
            data = content(self._disk, segment.descriptor)
        self.end, self._chain = at + shift, chain
