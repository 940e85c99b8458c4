"""What the log does at a start: reads all records, cuts off a torn end, finds damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from wallaroo.gateway.log.disk import Disk, content, write_all
from wallaroo.gateway.log.records import (
    ANY,
    HEADER,
    MOST_DATA,
    SKIPPED,
    DamagedLog,
    Record,
    Walk,
    packed_skipped,
    room_for_skipped,
)
from wallaroo.gateway.log.search import next_record, numbers, proves_durable, record_at
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

    def __init__(self, disk: Disk, directory: Path, skip: Skip | None) -> None:
        self._disk = disk
        self._directory = directory
        self._skip = skip
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
        for index, first in enumerate(firsts):
            stop = firsts[index + 1] if index + 1 < len(firsts) else None
            yield from self._segment(first, stop)

    def _find_segments(self) -> None:
        """Read the heads, and remove files that belong to no segment."""
        names = self._disk.names(self._directory)
        firsts = sorted(first for name in names if (first := first_number(name)) is not None)
        for first in firsts:
            head = parsed_head(self._read(first, HEAD_BYTES), self._file(first))
            if head is not None and self.name is None:
                self.name, self._seed = head.name, crc32(head.name)
            self._heads[first] = head
        # their records may be of a time after the one from which the log was restored
        unused = [self._directory / name for name in names if is_spare(name)]
        if firsts and self._heads[firsts[-1]] is None and not self._has_begun(firsts[-1]):
            del self._heads[firsts[-1]]
            unused.append(self._file(firsts[-1]))
        for file in unused:
            self._disk.unlink(file)
        if self._heads or unused:
            # also the name of the last segment, if the process was killed while that began
            self._disk.sync_directory(self._directory)

    def _has_begun(self, first: int) -> bool:
        """Whether there is anything in a segment without a head."""
        data = self._read(first)
        if self.name is None:
            return bool(data[HEAD_BYTES:].strip(b"\0"))
        return (
            record_at(data, self._seed, HEAD_BYTES) is not None
            or next_record(data, self._seed, HEAD_BYTES, first) is not None
        )

    def _segment(self, first: int, stop: int | None) -> Iterator[Record]:
        """Yield the records of a segment, up to the number *stop* if another one follows it."""
        file = self._file(first)
        data = self._read(first)
        head = self._head(first, stop, data)
        following = self._heads[stop] if stop is not None else None
        limit = None
        if following is not None and following.previous == first:
            limit = HEAD_BYTES + following.address - head.address
            data = data[:limit].ljust(limit, b"\0")
        at, number, chain = HEAD_BYTES, first, head.chain
        shift = head.address - HEAD_BYTES
        while True:
            walk = Walk(
                data, self._seed, at=at, number=number, chain=chain, shift=shift,
                stop=2**64 if stop is None else stop,
            )  # fmt: skip
            yield from walk
            at, number, chain = walk.at, walk.number, walk.chain
            if stop is None:
                if at == len(data) or not proves_durable(data, self._seed, at, number):
                    break
            elif number == stop and limit in (None, at):
                break
            damage, end = self._damage(file, data, at, number, stop, limit)
            payload = self._replaced(file, damage, end, at, chain)
            yield Record(number, SKIPPED, at + shift, payload)
            assert damage.last is not None
            at, number, chain = end, damage.last + 1, ANY
        self.segments.append(Segment(file, head))
        self.number, self.chain, self.end = number, chain, at + shift
        if stop is None:
            begin = record_at(data, self._seed, HEAD_BYTES)
            self.snapshot_bytes = begin.end - begin.at if begin else 0
            self._open_last(at)

    def _damage(
        self, file: Path, data: bytes, at: int, number: int, stop: int | None, limit: int | None
    ) -> tuple[DamagedLog, int]:
        """Describe the damage at a place; also returns where the next valid record begins."""
        found = next_record(data, self._seed, at, number, 2**64 if stop is None else stop)
        if found is not None:
            end, last = found.at, found.number - 1
        elif limit is not None and stop is not None:
            end, last = limit, stop - 1
        else:
            assert stop is not None
            problem = (
                f"it ends before record {number} at byte {at}, and "
                f"{segment_file(self._directory, stop).name} begins with record {stop}: "
                f"{numbers(number, stop - 1)} missing"
            )
            lost = data[at : at + MOST_DATA]
            raise DamagedLog(file, problem, first=number, last=stop - 1, data=lost)
        if last < number:
            problem = f"it does not end where {segment_file(self._directory, number).name} begins"
            raise DamagedLog(file, problem, first=number, last=last)
        room = room_for_skipped(end - at)
        problem = f"at byte {at}, {numbers(number, last)} not as written"
        lost = data[at : min(end, at + MOST_DATA)]
        return DamagedLog(file, problem, first=number, last=last, data=lost, room=room), end

    def _replaced(self, file: Path, damage: DamagedLog, end: int, at: int, chain: int) -> bytes:
        """Write a record in the place of damaged ones; returns its payload."""
        if self._skip is None or damage.room is None:
            raise damage
        payload = self._skip(damage)
        assert damage.last is not None
        record = packed_skipped(
            self._seed, max(chain, 0), damage.first, damage.last, payload, end - at
        )
        descriptor = self._disk.open(file, writable=True)
        try:
            write_all(self._disk, descriptor, record, at)
            self._disk.fdatasync(descriptor)
        finally:
            self._disk.close(descriptor)
        return payload

    def _head(self, first: int, stop: int | None, data: bytes) -> Head:
        """The head of a segment, after it was compared with the segments around it, or repaired."""
        head, file = self._heads[first], self._file(first)
        if self.segments and self.number != first:
            problem = f"it begins with record {first}: {numbers(self.number, first - 1)} missing"
            raise DamagedLog(file, problem, first=self.number, last=first - 1)
        expected = self._expected_head(first, stop, data) if self.segments or not head else head
        if head is None:
            problem = "its first bytes, which say of which log it is, are not as written"
            damage = DamagedLog(
                file, problem, first=first, last=first - 1, data=data[:HEAD_BYTES],
                room=None if expected is None else 0,
            )  # fmt: skip
            if self._skip is None or expected is None:
                raise damage
            self._rewrite(file, expected)
            return expected
        if head.name != self.name or head != expected or head.first != first:
            problem = "it is not the segment that was written under this name"
            raise DamagedLog(file, problem, first=first, last=None)
        return head

    def _expected_head(self, first: int, stop: int | None, data: bytes) -> Head | None:
        """What the head of a segment must say according to its neighbours; None if unknown."""
        if self.name is None:
            return None
        chain = self.chain
        if chain == ANY or not self.segments:
            # the first record knows it as well
            if record_at(data, self._seed, HEAD_BYTES) is None:
                known = self._heads[first]
                if known is None:
                    return None
                chain = known.chain
            else:
                chain = HEADER.unpack_from(data, HEAD_BYTES)[2]
        if self.segments:
            return Head(self.name, first, self.end, self.segments[-1].head.first, chain)
        following = self._heads[stop] if stop is not None else None
        if following is None or stop is None:
            return None
        walk = Walk(data, self._seed, at=HEAD_BYTES, number=first, chain=chain, stop=stop)
        for _ in walk:
            pass
        if walk.number != stop or following.previous != first:
            return None
        return Head(self.name, first, following.address - (walk.at - HEAD_BYTES), 0, chain)

    def _rewrite(self, file: Path, head: Head) -> None:
        descriptor = self._disk.open(file, writable=True)
        try:
            write_all(self._disk, descriptor, head.pack(), 0)
            self._disk.fdatasync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _open_last(self, end: int) -> None:
        """Open the last segment, and cut off what follows its last record.

        Otherwise records that are not part of the log any more could follow ones that are appended
        and happen to be the same as before. What was read is on disk by the time this returns.
        """
        segment = self.segments[-1]
        segment.descriptor = self._disk.open(segment.file, writable=True)
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
