"""Recovery of a log at a start: all records are read, a torn end is cut off, damage is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from wallaroo.gateway.log.disk import Disk, content, write_all
from wallaroo.gateway.log.records import (
    ANY,
    HEADER,
    MOST_NUMBER,
    SKIPPED,
    DamagedLog,
    Extent,
    Record,
    Walk,
    packed_skipped,
    room_for_skipped,
)
from wallaroo.gateway.log.search import (
    damage_at,
    next_record,
    numbers,
    proves_durable,
    record_at,
    valid_records,
)
from wallaroo.gateway.log.segments import (
    HEAD_BYTES,
    Head,
    Segment,
    first_number,
    is_spare,
    parsed_head,
    segment_file,
)

Skip = Callable[[DamagedLog], bytes]
"""Returns the payload of the record that stands in the place of damaged ones."""


class Recovery:
    """Reads the segments of a log one after the other.

    Attributes:
        segments: Those read so far; the last one is open for writing in the end.
        number: Number of the next record.
        chain: Checksum of the record before it, or `ANY`.
        end: Its address.
        snapshot_bytes: Length of the first record of the last segment.
        name: Name of the log; None if there is no log yet.
    """

    def __init__(
        self, disk: Disk, directory: Path, skip: Skip | None, durable: Callable[[bytes], int]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._skip = skip
        self._durable = durable
        self._heads: dict[int, Head | None] = {}
        self._seed = 0
        self.segments: list[Segment] = []
        self.number = 1
        self.chain = 0
        self.end = 0
        self.snapshot_bytes = 0
        self.name: bytes | None = None

    def records(self) -> Iterator[Record]:
        """Yield all records; afterwards nothing but them is in the last segment.

        Raises:
            DamagedLog: Records that were on disk are missing, or are not as they were written.
        """
        self._disk.make_directory(self._directory)
        self._find_segments()
        firsts = sorted(self._heads)
        for first, stop in zip(firsts, [*firsts[1:], None], strict=False):
            yield from self._segment(first, stop)
        if self.segments:
            self._open_last()

    def _find_segments(self) -> None:
        """Read the heads, and remove files that belong to no segment."""
        names = self._disk.names(self._directory)
        for first in filter(None, map(first_number, names)):
            self._heads[first] = parsed_head(self._read(first, HEAD_BYTES), self._file(first))
        known = {head.name: first for first, head in sorted(self._heads.items()) if head}
        if len(known) > 1:
            first, other = sorted(known.values())[:2]
            problem = f"it is of another log than {self._file(other).name}"
            raise DamagedLog(self._file(first), problem, first=first, last=None)
        for self.name in known:
            self._seed = crc32(self.name)
        # their records may be of a time after the one from which the log was restored
        for name in filter(is_spare, names):
            self._disk.unlink(self._directory / name)
        if names:
            # also the name of the last segment, if the process was killed while that began
            self._disk.sync_directory(self._directory)

    def _segment(self, first: int, stop: int | None) -> Iterator[Record]:
        """Yield the records of a segment, up to the number *stop* if another one follows it."""
        file, data = self._file(first), self._read(first)
        if self.segments and self.number != first:
            problem = f"it begins with record {first}: {numbers(self.number, first - 1)} missing"
            raise DamagedLog(file, problem, first=self.number, last=first - 1)
        if stop is None and self._heads[first] is None and not self._has_begun(first, data):
            self._disk.unlink(file)
            self._disk.sync_directory(self._directory)
            return
        head = self._head(first, stop, data)
        following = self._heads[stop] if stop is not None else None
        limit = None
        if following is not None and following.previous == first:
            limit = HEAD_BYTES + following.address - head.address
            data = data[:limit].ljust(limit, b"\0")
        extent = Extent(data, self._seed, head.address - HEAD_BYTES)
        at, self.number, self.chain = HEAD_BYTES, first, head.chain
        while True:
            walk = Walk(
                extent, at=at, number=self.number, chain=self.chain, stop=stop or MOST_NUMBER
            )
            yield from walk
            at, self.number, self.chain = walk.at, walk.number, walk.chain
            if stop is None:
                proven = proves_durable(extent, at, self.number) or self._is_left(extent, at)
                if at == len(data) or not proven:
                    break
            elif self.number == stop and limit in (None, at):
                break
            damage, end = self._damage(file, extent, at, stop, limit)
            payload = self._replaced(damage, extent, at, end)
            yield Record(self.number, SKIPPED, at + extent.shift, payload)
            assert damage.last is not None
            at, self.number, self.chain = end, damage.last + 1, ANY
        begin = record_at(extent, HEAD_BYTES)
        self.snapshot_bytes = begin.end - begin.at if begin else 0
        self.segments.append(Segment(file, head))
        self.end = at + extent.shift

    def _has_begun(self, first: int, data: bytes) -> bool:
        """Whether there is anything in a segment that has no head."""
        if not self.segments:
            return bool(data[HEAD_BYTES:].strip(b"\0"))
        extent = Extent(data, self._seed, self.end - HEAD_BYTES)
        return any(valid_records(extent, HEAD_BYTES, first))

    def _damage(
        self, file: Path, extent: Extent, at: int, stop: int | None, limit: int | None
    ) -> tuple[DamagedLog, int]:
        """Describe the damage at a place; also returns where the next valid record begins."""
        damage = damage_at(file, extent, at, self.number, stop)
        found = next_record(extent, at, self.number, stop or MOST_NUMBER)
        if found is not None:
            damage.room = room_for_skipped(found.at - at)
            return damage, found.at
        if limit is not None and stop is not None:
            damage.room = room_for_skipped(limit - at)
            return damage, limit
        if stop is None:
            damage = damage_at(file, extent, at, self.number, self._known + 1)
            damage.room = 0
            return damage, at + HEADER.size
        problem = (
            f"it ends with byte {at}, before record {self.number}, and "
            f"{self._file(stop).name} begins with record {stop}: "
            f"{numbers(self.number, stop - 1)} missing"
        )
        raise DamagedLog(file, problem, first=self.number, last=stop - 1, data=damage.data)

    @property
    def _known(self) -> int:
        """Number of the last record that is known to have been on disk."""
        return 0 if self.name is None else self._durable(self.name)

    def _is_left(self, extent: Extent, at: int) -> bool:
        """Whether there is something left of the next record, which was on disk."""
        if self.number > self._known or at + HEADER.size > len(extent.data):
            return False
        _, _, chain, _, _, number = HEADER.unpack_from(extent.data, at)
        return number == self.number or chain == self.chain != 0

    def _replaced(self, damage: DamagedLog, extent: Extent, at: int, end: int) -> bytes:
        """Write a record in the place of damaged ones; returns its payload."""
        if self._skip is None or damage.room is None:
            raise damage
        payload = self._skip(damage)
        chain = max(self.chain, 0)
        record = packed_skipped(self._seed, damage, at + extent.shift, chain, payload, end - at)
        self._rewrite(damage.file, record, at)
        return payload

    def _head(self, first: int, stop: int | None, data: bytes) -> Head:
        """The head of a segment, after it was compared with the segments around it, or repaired."""
        head, file = self._heads[first], self._file(first)
        if head is not None:
            if head.first != first or (self.segments and head != self._expected(first, stop, data)):
                problem = "it is not the segment that was written under this name"
                raise DamagedLog(file, problem, first=first, last=None)
            return head
        expected = self._expected(first, stop, data)
        if self._skip is None or expected is None:
            problem = "its first bytes, which say of which log it is, are not as written"
            room = None if expected is None else 0
            lost = data[:HEAD_BYTES]
            raise DamagedLog(file, problem, first=first, last=first - 1, data=lost, room=room)
        self._rewrite(file, expected.pack(), 0)
        return expected

    def _expected(self, first: int, stop: int | None, data: bytes) -> Head | None:
        """What the head of a segment must say according to its neighbours; None if unknown."""
        previous, address = (0, 0), self.end
        following = self._heads[stop] if stop is not None else None
        if self.segments:
            previous = self.segments[-1].head.first, self.segments[-1].head.address
        elif following is not None and following.previous == first:
            address = following.previous_address
        else:
            return None
        assert self.name is not None
        chain, head = self.chain, self._heads[first]
        if chain == ANY or not self.segments:
            extent = Extent(data, self._seed, address - HEAD_BYTES)
            if head is not None:
                chain = head.chain
            elif record_at(extent, HEAD_BYTES) is not None:
                _, _, chain, *_ = HEADER.unpack_from(data, HEAD_BYTES)
            else:
                # the first record is damaged as well; what will stand there can follow anything
                chain = 0
        return Head(self.name, first, address, *previous, chain)

    def _rewrite(self, file: Path, data: bytes, at: int) -> None:
        descriptor = self._disk.open(file, writable=True)
        try:
            write_all(self._disk, descriptor, data, at)
            self._disk.fdatasync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _open_last(self) -> None:
        """Open the last segment, and cut off what follows its last record.

        Otherwise records that are not part of the log any more could follow ones that are appended
        and happen to be the same as before. What was read is on disk by the time this returns.
        """
        segment = self.segments[-1]
        segment.descriptor = self._disk.open(segment.file, writable=True)
        end = self.end - segment.head.address + HEAD_BYTES
        if self._disk.size(segment.descriptor) > end:
            self._disk.truncate(segment.descriptor, end)
        self._disk.fdatasync(segment.descriptor)

    def _file(self, first: int) -> Path:
        return segment_file(self._directory, first)

    def _read(self, first: int, length: int | None = None) -> bytes:
        descriptor = self._disk.open(self._file(first))
        try:
            return content(self._disk, descriptor, length)
        finally:
            self._disk.close(descriptor)


def rehearsed(directory: Path, *, skips: bool) -> Iterator[Record]:
    """Yield the records that `Log.recover` will, of a log that nobody has open; change nothing.

    Args:
        directory: The directory of the log; there are no records if it is missing.
        skips: Whether damaged records will be skipped.

    Raises:
        DamagedLog: Records that were on disk are not there as written, and are not skipped.
    """
    disk = _Unchanged()
    recovery = Recovery(disk, directory, (lambda _: b"") if skips else None, lambda _: 0)
    try:
        yield from recovery.records()
    finally:
        for segment in recovery.segments[-1:]:
            if segment.descriptor >= 0:
                disk.close(segment.descriptor)


class _Unchanged(Disk):
    """A disk that stays as it is."""

    def make_directory(self, directory: Path) -> None:
        """Do nothing."""

    def unlink(self, file: Path) -> None:
        """Do nothing."""

    def sync_directory(self, directory: Path) -> None:
        """Do nothing."""

    @staticmethod
    def pwritev(_descriptor: int, buffers: Any, _offset: int, _flags: int = 0, /) -> int:
        """Write nothing, and return the length of all."""
        return sum(map(len, buffers))

    @staticmethod
    def fdatasync(_descriptor: Any, /) -> None:
        """Do nothing."""

    @staticmethod
    def truncate(_descriptor: int, _length: int, /) -> None:
        """Do nothing."""
