"""The log as another process than its owner reads it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Self
from zlib import crc32

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.log.archived import ArchivedSegment, misleading
from wallaroo.gateway.log.disk import Disk, content
from wallaroo.gateway.log.pins import Pinned, Segment, pin, pinned_segments, released_before
from wallaroo.gateway.log.records import (
    ANY,
    HEADER,
    MOST_NUMBER,
    DamagedLog,
    Extent,
    Record,
    Walk,
)
from wallaroo.gateway.log.search import damage_at, proves_durable
from wallaroo.gateway.log.segments import (
    HEAD_BYTES,
    Head,
    first_number,
    parsed_head,
    segment_file,
)

_PIECE_BYTES = 1024**2
"""Bytes that are read at once of a segment which grows, if its records are not longer."""


Reaches = Callable[[Record], bool]
"""Whether nothing is needed that is older than a record, as is then so of all older ones."""


def scan(
    directory: Path,
    *,
    kept: bool = False,
    archive: Path | None = None,
    reaches: Reaches | None = None,
    disk: Disk | None = None,
) -> Iterator[Record]:
    """Yield the records that the log in a directory has at some moment, from the oldest one on.

    Nothing is changed. The owner may append and release meanwhile; the last records may not be on
    disk yet. The payloads are views of what was read of a whole segment.

    Args:
        directory: The directory of the log; there are no records if it is missing.
        kept: Whether to begin with what is kept of released segments.
        archive: Where older ones have been archived, to begin with those; None for nowhere.
        reaches: Whether nothing is needed that is older than a record, to begin there and leave the
            archive alone if it can; None if all is needed.
        disk: For tests.

    Raises:
        DamagedLog: Records that were on disk are missing, or are not as they were written.
        RuntimeFailure: Another version of the package has written the log.
    """
    disk = disk or Disk()
    with contextlib.ExitStack() as stack:
        segments, older = pinned_segments(disk, directory, stack), list[Segment]()
        if kept and segments:
            needed = None if reaches is None else _beginning_at(reaches, disk)
            older = released_before(segments[0], directory, archive, needed, disk, stack)
        yield from _Scan(disk).records([*older, *segments])


def _beginning_at(reaches: Reaches, disk: Disk) -> Callable[[Segment], bool]:
    """Whether nothing is needed that is older than the first record of a segment."""

    def reaches_with(segment: Segment) -> bool:
        first = next(_Scan(disk, follows=True).records([segment]), None)
        return first is not None and reaches(first)

    return reaches_with


class PinnedLog:
    """A log whose segments stay as they are, whatever its owner does; a context manager.

    Those that the owner releases take space until the block, or this process, ends.

    Args:
        directory: The directory of the log; its owner may append and release.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._disk = directory, Disk()
        self._opened = contextlib.ExitStack()
        self._segments: list[Pinned] = []

    def __enter__(self) -> Self:
        self._segments = pinned_segments(self._disk, self._directory, self._opened)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._opened.close()

    def extend(self) -> bool:
        """Also pin the segments that have begun since; returns whether there is no gap before."""
        found = pinned_segments(self._disk, self._directory, self._opened)
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


class FollowedLog:
    """A log that is read while its owner appends; a context manager.

    Segments stay as they are until they have been read, so those that the owner has released
    meanwhile take space.

    Args:
        directory: The directory of the log.
        waits: Called when there is nothing more to read for now; returns False to read no more.
        archive: Where older segments have been archived; None for nowhere.
        disk: For tests.
    """

    MOST_RELEASED = 16
    """Segments that are kept though their owner has released them; a reader that needs more of them
    is given up."""
    EXTEND_S = 0.2
    """Seconds after which a slow reader looks for new segments, before they are released."""

    def __init__(
        self,
        directory: Path,
        waits: Callable[[], bool],
        archive: Path | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._directory, self._waits, self._disk = directory, waits, disk or Disk()
        self._archive = archive
        self._segments: list[Pinned] = []
        self._opened: dict[int, contextlib.ExitStack] = {}
        """What closes each segment, by its first number."""

    def __enter__(self) -> Self:
        self._extend()
        return self

    def __exit__(self, *_exc: object) -> None:
        for stack in self._opened.values():
            stack.close()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, from the oldest one of the log on; see `records`."""
        return self.records(lambda _record: True)

    def records(self, reaches: Reaches) -> Iterator[Record]:
        """Yield the records, from the oldest one of the log on, or from older ones.

        Args:
            reaches: Whether nothing is needed that is older than a record.

        Raises:
            DamagedLog: Records that were on disk are missing, or are not as they were written.
            RuntimeFailure: The reader is too slow.
        """
        scanned, extend_at = _Scan(self._disk, follows=True), 0.0
        with contextlib.ExitStack() as stack:
            older = self._before(reaches, stack)
            while True:
                self._extend()
                reading = list(self._segments)
                for record in scanned.records([*older, *reading]):
                    yield record
                    if (now := time.monotonic()) >= extend_at:
                        self._extend()
                        extend_at = now + self.EXTEND_S
                older = []
                stack.close()
                for segment in reading[:-1]:
                    self._segments.remove(segment)
                    self._opened.pop(segment.first).close()
                if len(self._segments) <= 1 and not self._waits():
                    return

    def _before(self, reaches: Reaches, stack: contextlib.ExitStack) -> list[Segment]:
        """The segments that are needed and are before those of the log; *stack* closes them."""
        if not self._segments:
            return []
        needed = _beginning_at(reaches, self._disk)
        first = self._segments[0]
        return released_before(first, self._directory, self._archive, needed, self._disk, stack)

    def _extend(self) -> None:
        """Also keep the segments that have begun since."""
        last = self._segments[-1].first if self._segments else 0
        numbers = [first_number(name) or 0 for name in self._disk.names(self._directory)]
        found: list[Pinned] = []
        for first in sorted((one for one in numbers if one > last), reverse=True):
            stack = contextlib.ExitStack()
            segment = pin(self._disk, segment_file(self._directory, first), first, stack)
            if segment is None:  # released, and all before it
                stack.close()
                break
            self._opened[first] = stack
            found.insert(0, segment)
        if last and not found and not self._is_there(self._segments[-1]):
            msg = f"{self._directory} is gone, or is another one"
            raise RuntimeFailure(msg)
        is_gap = bool(last and found) and not self._follows_last(found[0])
        self._segments += found
        released = sum(not self._is_there(one) for one in self._segments)
        if is_gap or released > self.MOST_RELEASED:
            msg = (
                f"the reader of {self._directory} has fallen too far behind: at most "
                f"{self.MOST_RELEASED} of the files are kept for it"
            )
            raise RuntimeFailure(msg)

    def _is_there(self, segment: Pinned) -> bool:
        """Whether a segment has not been released."""
        return self._disk.is_at(segment.descriptor, segment.file)

    def _follows_last(self, segment: Pinned) -> bool:
        """Whether *segment*, as far as it says, follows the last one."""
        head = parsed_head(content(self._disk, segment.descriptor, HEAD_BYTES), segment.file)
        return head is None or head.previous == self._segments[-1].first


class _Scan:
    """Reads segments one after another; can resume where it stopped.

    Args:
        disk: The disk.
        follows: Whether `records` is called repeatedly: the last segment is then read in pieces,
            and damage at its end is detected once another segment follows.

    Attributes:
        end: Address after the last record of the segments that are read.
    """

    def __init__(self, disk: Disk, *, follows: bool = False) -> None:
        self._disk, self._follows = disk, follows
        self._head: Head | None = None
        """Head of the segment that was read last, perhaps in part."""
        self._at = self._number = self.end = 0
        """Place and number of the next record in it."""
        self._chain = ANY

    def records(self, segments: Sequence[Segment]) -> Iterator[Record]:
        """Yield the records of *segments*; the first of them may have been read in part."""
        before: Segment | None = None
        for segment, following in zip(segments, [*segments[1:], None], strict=False):
            if self._head is None or self._head.first != segment.first:
                head = parsed_head(
                    content(self._disk, segment.descriptor, HEAD_BYTES), segment.file
                )
                if head is None and following is None and self._is_empty(segment):
                    # it was about to begin
                    return
                if head is None or head.first != segment.first or not self._continues(head):
                    if isinstance(before, ArchivedSegment):
                        raise misleading([before.file], segment.first)
                    problem = "its first bytes do not say that it is the segment of this name"
                    raise DamagedLog(segment.file, problem, first=segment.first, last=None)
                self._head = head
                self._at, self._number, self._chain = HEAD_BYTES, head.first, head.chain
            stop = following.first if following else None
            if following is None and self._follows:
                yield from self._tail(segment, self._head)
            elif stop is not None and isinstance(segment, ArchivedSegment):
                try:
                    yield from self._segment(segment, self._head, stop)
                except DamagedLog as error:  # it has the SHA-256 that it should have
                    raise misleading([segment.file], stop) from error
            else:
                yield from self._segment(segment, self._head, stop)
            before = segment

    def _is_empty(self, segment: Segment) -> bool:
        return not content(self._disk, segment.descriptor, offset=HEAD_BYTES).strip(b"\0")

    def _continues(self, head: Head) -> bool:
        """Whether a head is that of the next segment."""
        return self._head is None or (
            head.name == self._head.name
            and (head.previous, head.previous_address) == self._head[1:3]
            and head.address == self.end
            and self._chain in {head.chain, ANY}
        )

    def _segment(self, segment: Segment, head: Head, stop: int | None) -> Iterator[Record]:
        """Yield the records of a segment, up to the number *stop* if another one follows it."""
        is_suspected = False
        while True:
            walk, extent = yield from self._walk(segment, head, stop=stop or MOST_NUMBER)
            if self._number == stop:
                return
            at = walk.at
            if stop is None and (
                at == len(extent.data) or not proves_durable(extent, at, walk.number)
            ):
                return
            # what is written while it is read may seem to be damaged
            if is_suspected and not at:
                whole = Extent(
                    content(self._disk, segment.descriptor), extent.seed, extent.shift - self._at
                )
                raise damage_at(segment.file, whole, self._at, self._number, stop)
            is_suspected = True

    def _tail(self, segment: Segment, head: Head) -> Iterator[Record]:
        """Yield the records that have been appended to the last segment."""
        length = _PIECE_BYTES
        while True:
            walk, extent = yield from self._walk(segment, head, length)
            if walk.at:
                continue
            data = extent.data
            if len(data) < length or (needed := self._bytes_of_next(data)) <= length:
                return
            length = needed

    def _walk(
        self, segment: Segment, head: Head, length: int | None = None, stop: int = MOST_NUMBER
    ) -> Generator[Record, None, tuple[Walk, Extent]]:
        """Yield records from where reading has come to, from *length* bytes at most.

        Returns:
            How far they go, in the bytes that were read.
        """
        shift = head.address - HEAD_BYTES + self._at
        data = content(self._disk, segment.descriptor, length, self._at)
        extent = Extent(data, crc32(head.name), shift)
        walk = Walk(extent, at=0, number=self._number, chain=self._chain, stop=stop)
        yield from walk
        self._at, self._number, self._chain = self._at + walk.at, walk.number, walk.chain
        self.end = shift + walk.at
        return walk, extent

    def _bytes_of_next(self, data: bytes | bytearray) -> int:
        """How many bytes the next record has, if it begins with *data*; 0 if it does not."""
        _, length, _, _, _, number = HEADER.unpack_from(data)
        return HEADER.size + length if number == self._number else 0
