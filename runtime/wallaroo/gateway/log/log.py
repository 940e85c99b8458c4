"""The log that this process appends to."""

from __future__ import annotations

import bisect
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

from wallaroo.gateway.log.batch import Batch
from wallaroo.gateway.log.disk import Disk, content
from wallaroo.gateway.log.files import SegmentFiles
from wallaroo.gateway.log.kept import Keep, KeptSegments
from wallaroo.gateway.log.records import (
    ANY,
    HEADER,
    LOW_BITS,
    MOST_BYTES,
    SNAPSHOT,
    DamagedLog,
    Extent,
    Part,
    Record,
    Walk,
)
from wallaroo.gateway.log.recovery import Recovery, Skip
from wallaroo.gateway.log.search import damage_at
from wallaroo.gateway.log.segments import (
    HEAD_BYTES,
    NAME_BYTES,
    Head,
    Segment,
    segment_file,
)
from wallaroo.system.failpoints import fault

SEGMENT_BYTES = 64 * 1024**2
"""Length of a segment, roughly."""
_COPIED_BYTES = 4096
"""Payloads up to this length are copied, as many buffers cost more than one that is longer."""
_READ_BYTES = 1024**2
"""How much is read at once of records that follow each other."""
_FIRST_READ_BYTES = 4096
"""How much is read of a single record at first."""
_SNAPSHOTS = 2
"""A segment is at least that many times as long as the snapshot in it."""


class Log:
    """An append-only log in a directory, for one process and one thread at a time.

    Records are numbered from 1 on. The log is divided into segments, and each of them begins with a
    record of kind `SNAPSHOT`; `release` removes those that are needed no more.

    Args:
        directory: Where it is; made if it is missing.
        snapshot: Returns the payload of a `SNAPSHOT`, in parts: the state of the owner as of the
            record before. It must not append.
        segment_bytes: Length of a segment, roughly: one is longer if a single record is, and is at
            least twice as long as its snapshot.
        keep: What is kept of released segments, under other names: `recover` does not read them.
        disk: For tests.

    Attributes:
        name: Random name of the log; it stays the same for the life of the log.
        next: Number of the next record.
        written: Number of the last record that was handed to the system.
        durable: Number of the last record that is surely on disk.
        end: Address of the next record.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     log = Log(Path(directory, "log"), lambda: [b"empty"])
        ...     list(log.recover())
        ...     address = log.append(7, b"hello ", b"world")
        ...     log.write()
        ...     log.sync()
        ...     log.read(address).payload, log.durable
        ...     log.close()
        ...     log = Log(Path(directory, "log"), lambda: [b"empty"])
        ...     [(record.number, record.kind, bytes(record.payload)) for record in log.recover()]
        ...     log.close()
        []
        (b'hello world', 2)
        [(1, 1, b'empty'), (2, 7, b'hello world')]
    """

    def __init__(
        self,
        directory: Path,
        snapshot: Callable[[], Sequence[Part]],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        keep: Keep = Keep(),  # noqa: B008 - it cannot be changed
        disk: Disk | None = None,
    ) -> None:
        self._directory = directory
        self._snapshot = snapshot
        self._segment_bytes = segment_bytes
        self._disk = disk or Disk()
        self._files = SegmentFiles(self._disk, directory, segment_bytes)
        self.kept = KeptSegments(self._disk, directory, keep, self._files.remove)
        self._segments: list[Segment] = []
        self._queue: deque[Batch] = deque()
        # address up to which records are appended to the last segment
        self._limit = -1
        self._chain = 0
        self._written_end = 0
        self._current: Segment | None = None
        self._reader: tuple[Segment, int] | None = None
        self._syncing: dict[int, int] = {}
        self._ended: set[int] = set()
        self.next = 1
        self.written = 0
        self.durable = 0
        self.end = 0
        self.name = b""
        self._seed = 0

    def recover(
        self, *, skip: Skip | None = None, durable: Callable[[bytes], int] = lambda _name: 0
    ) -> Iterator[Record]:
        """Yield all records from the oldest segment on; then the log can be appended to.

        Their payloads are views of what was read of a whole segment: copy what is kept for long.
        Everything that was yielded is on disk when the iterator is exhausted.

        Args:
            skip: Called with damage; returns the payload of a record of kind `SKIPPED`, which is
                written in the place of the damaged ones, and is yielded. The payload may have the
                length `DamagedLog.room`.
            durable: Returns, for the name of a log, the number of the last record that is known to
                have been on disk; if only part of it is left, that is damage, not a torn write.

        Raises:
            DamagedLog: Records that were on disk are not there as written, and *skip* is not given,
                or they cannot be skipped.
            ValueError: *skip* returned a payload that is too long.
        """
        recovery = Recovery(self._disk, self._directory, skip, durable)
        yield from recovery.records()
        self._name(recovery.name or os.urandom(NAME_BYTES))
        self._segments = recovery.segments
        self._chain = max(recovery.chain, 0)  # after a record `SKIPPED`, any will do
        self.next = recovery.number
        self.written = self.durable = self.next - 1
        self.end = self._written_end = recovery.end
        if self._segments:
            last = self._segments[-1]
            self._current = last
            self._queue.append(Batch(last, self._place(last, self.end)))
            if self.next > last.head.first:
                self._set_limit(recovery.snapshot_bytes)
            self.kept.find(self._segments[0].head)

    def append(self, kind: int, *parts: Part) -> int:
        """Add a record to what `write` writes.

        Args:
            kind: Its kind.
            *parts: Its payload; long parts are not copied, so they must not be changed before they
                are written.

        Returns:
            Its address.

        Raises:
            OverflowError: The payload has 4 GiB or more.
        """
        length = 0
        for part in parts:
            length += len(part)
        if self.end + length > self._limit:
            self._make_room()
        return self._put(kind, parts, length)

    def write(self) -> None:
        """Hand all records that were appended to the system.

        Raises:
            NoRoom: There is no room for all of them; call it again later.
            OSError: The disk fails; recover the log from what is on it.
        """
        if self.written + 1 == self.next:
            return
        fault("log-before-write")
        queue = self._queue
        while True:
            batch = queue[0]
            if batch.segment.descriptor < 0:
                self._begin(batch.segment)
            if batch.length:
                batch.write(self._disk)
            if len(queue) == 1:
                break
            queue.popleft()
            self._written_end = queue[0].segment.head.address
            self.written = queue[0].segment.head.first - 1
        batch.at += batch.length
        batch.buffers = []
        batch.length = 0
        self._written_end = self.end
        self.written = self.next - 1
        fault("log-after-write")

    def sync(self) -> None:
        """Wait until all that was written is on disk.

        Raises:
            OSError: The disk fails. What was written since the last sync may be lost, even if
                another one succeeds: recover the log from what is on disk.
        """
        if self.durable < self.written:
            assert self._current is not None
            self._disk.fdatasync(self._current.descriptor)
            self.durable = self.written
            fault("log-after-sync")

    def begin_sync(self) -> tuple[int, int] | None:
        """Return what a thread needs to do what `sync` does; None if everything is on disk.

        Returns:
            A descriptor for `os.fdatasync`, which stays open until `end_sync` is called with the
            number that is returned with it.
        """
        if self.durable >= self.written:
            return None
        assert self._current is not None
        descriptor = self._current.descriptor
        self._syncing[self.written] = descriptor
        return descriptor, self.written

    def end_sync(self, number: int) -> None:
        """Note that the sync with a *number* from `begin_sync` has succeeded."""
        descriptor = self._syncing.pop(number, -1)
        self.durable = max(self.durable, number)
        if descriptor in self._ended and descriptor not in self._syncing.values():
            self._ended.remove(descriptor)
            self._disk.close(descriptor)
        fault("log-after-sync")

    @property
    def disk_bytes(self) -> int:
        """Bytes of the records that are not released, and of the heads of their segments."""
        if not self._segments:
            return 0
        return self.end - self._segments[0].head.address + HEAD_BYTES * len(self._segments)

    @property
    def oldest_end(self) -> int | None:
        """Address where the oldest segment ends; None if it is also the last one."""
        return self._segments[1].head.address if len(self._segments) > 1 else None

    def read(self, address: int) -> Record:
        """Return the record at an address; its payload is of type `bytes`.

        Raises:
            DamagedLog: It is not as it was written.
            LookupError: It was released, or is not written yet.
        """
        segment, descriptor = self._opened(address)
        at = self._place(segment, address)
        if (record := self._record(descriptor, at, address)) is None:
            raise self._damage(segment, descriptor, at)
        return record

    def reader(self, address: int) -> Callable[[], Record | None]:
        """Return what reads the record at an address, once, in any thread.

        It returns None if the record is not as it was written, as it may be once it is released.

        Raises:
            LookupError: The record was released, or is not written yet.
        """
        segment, descriptor = self._opened(address)
        at, own = self._place(segment, address), self._disk.duplicate(descriptor)

        def read() -> Record | None:
            try:
                return self._record(own, at, address)
            finally:
                self._disk.close(own)

        return read

    def _record(self, descriptor: int, at: int, address: int) -> Record | None:
        """The record at a place in a file; None if it is not as it was written."""
        data = content(self._disk, descriptor, _FIRST_READ_BYTES, at)
        if len(data) < HEADER.size:
            return None
        crc, length, _, _, kind, number = HEADER.unpack_from(data)
        end = HEADER.size + length
        if end > self._written_end - address or number > self.written:
            return None
        if end > len(data):
            data += content(self._disk, descriptor, end - len(data), at + len(data))
        if crc32(memoryview(data)[4:end], self._seed) != crc ^ (address & LOW_BITS):
            return None
        return Record(number, kind, address, data[HEADER.size : end])

    def records(self, start: int) -> Iterator[Record]:
        """Yield the written records from an address on, which is that of a record or of the end.

        Also those that are written meanwhile. Their payloads are views of what was read at once.

        Raises:
            DamagedLog: A record is not as it was written.
            LookupError: A record was released.
        """
        if self._written_end <= start <= self.end:
            return
        address, number, length = start, self.read(start).number, _READ_BYTES
        while address < self._written_end:
            segment, descriptor = self._opened(address)
            at = self._place(segment, address)
            left = self._end_of(segment) - address
            data = content(self._disk, descriptor, min(length, left), at)
            walk = Walk(Extent(data, self._seed, address), at=0, number=number, chain=ANY)
            yield from walk
            if walk.at:
                address, number, length = address + walk.at, walk.number, _READ_BYTES
            elif length < left:
                length *= 4
            else:
                raise self._damage(segment, descriptor, at)

    def release(self, address: int) -> None:
        """Remove the segments all of whose records are before an address.

        The last segment stays, and so does one before which nothing durable says what was in it.
        """
        while len(self._segments) > 1:
            following = self._segments[1].head
            if following.address > address or following.first > self.durable:
                break
            segment = self._segments.pop(0)
            if self._reader is not None and self._reader[0] is segment:
                self._close_reader()
            if self.kept:
                self.kept.add(segment.file)
            else:
                self._files.remove(segment.file)
            fault("log-released")

    def close(self) -> None:
        """Close the files; what was appended and not written is lost."""
        self._close_reader()
        for segment in self._segments:
            if segment.descriptor >= 0:
                self._ended.add(segment.descriptor)
                segment.descriptor = -1
        for descriptor in self._ended - set(self._syncing.values()):
            self._ended.remove(descriptor)
            self._disk.close(descriptor)

    def _name(self, name: bytes) -> None:
        self.name = name
        self._seed = crc32(name)

    def _make_room(self) -> None:
        """Let the next segment begin, unless there is only a snapshot in the last one."""
        if not self.name:
            msg = "the log was not recovered"
            raise ValueError(msg)
        last = self._segments[-1].head if self._segments else None
        if last is not None and self.next == last.first + 1:
            return
        parts = self._snapshot()
        if last is None or self.next > last.first:
            before = (last.first, last.address) if last else (0, 0)
            head = Head(self.name, self.next, self.end, *before, self._chain)
            segment = Segment(segment_file(self._directory, self.next), head)
            self._segments.append(segment)
            self._queue.append(Batch(segment, HEAD_BYTES))
        begin = self._put(SNAPSHOT, parts, sum(map(len, parts)))
        self._set_limit(self.end - begin)

    def _set_limit(self, snapshot_bytes: int) -> None:
        """Set the address at which the last segment is full."""
        room = max(self._segment_bytes - HEAD_BYTES, _SNAPSHOTS * snapshot_bytes)
        self._limit = self._segments[-1].head.address + room

    def _put(self, kind: int, parts: Sequence[Part], length: int) -> int:
        number, address = self.next, self.end
        if length > MOST_BYTES:
            msg = f"a record of {length} bytes is too long"
            raise OverflowError(msg)
        lag = number - 1 - self.durable
        header = HEADER.pack(0, length, self._chain, lag, kind, number)[4:]
        crc = crc32(header, self._seed)
        for part in parts:
            crc = crc32(part, crc)
        crc ^= address & LOW_BITS
        start = crc.to_bytes(4, "little")
        batch = self._queue[-1]
        if length <= _COPIED_BYTES:
            batch.buffers.append(b"".join((start, header, *parts)))
        else:
            batch.buffers += (start + header, *parts)
        batch.length += HEADER.size + length
        self._chain = crc
        self.next = number + 1
        self.end = address + HEADER.size + length
        return address

    def _begin(self, segment: Segment) -> None:
        """Make the file of a segment. All records before it are on disk then."""
        if self._current is not None and self.durable < self.written:
            self._disk.fdatasync(self._current.descriptor)
            self.durable = self.written
        descriptor = self._files.make(segment)
        if self._current is not None:
            self._end(self._current)
        segment.descriptor = descriptor
        self._current = segment
        fault("log-segment-begins")

    def _end(self, segment: Segment) -> None:
        """Close a segment to which nothing is written any more, now or after its last sync."""
        self.kept.end(segment.descriptor)
        if segment.descriptor in self._syncing.values():
            self._ended.add(segment.descriptor)
        else:
            self._disk.close(segment.descriptor)
        segment.descriptor = -1

    def _place(self, segment: Segment, address: int) -> int:
        return address - segment.head.address + HEAD_BYTES

    def _opened(self, address: int) -> tuple[Segment, int]:
        """The segment with a written record at an address, and a descriptor to read it."""
        if not self._segments or not self._segments[0].head.address <= address < self._written_end:
            msg = f"there is no record at {address} any more, or not yet"
            raise LookupError(msg)
        index = bisect.bisect_right(self._segments, address, key=lambda one: one.head.address)
        segment = self._segments[index - 1]
        if segment.descriptor >= 0:
            return segment, segment.descriptor
        if self._reader is None or self._reader[0] is not segment:
            self._close_reader()
            self._reader = segment, self._disk.open(segment.file)
        return self._reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._disk.close(self._reader[1])
            self._reader = None

    def _end_of(self, segment: Segment) -> int:
        """Address after the last written record of a segment."""
        index = self._segments.index(segment) + 1
        if index == len(self._segments):
            return self._written_end
        return min(self._segments[index].head.address, self._written_end)

    def _damage(self, segment: Segment, descriptor: int, at: int) -> DamagedLog:
        """Describe the damage at a place of a segment, or before it."""
        length = self._place(segment, self._end_of(segment))
        data = content(self._disk, descriptor, length)[:length].ljust(length, b"\0")
        head = segment.head
        extent = Extent(data, self._seed, head.address - HEAD_BYTES)
        before = extent._replace(data=data[:at])
        walk = Walk(before, at=HEAD_BYTES, number=head.first, chain=head.chain)
        for _ in walk:
            pass
        return damage_at(segment.file, extent, walk.at, walk.number)
