"""Entities in files of one process, found by the hashes of their keys.

Records are appended to segments; an index in SQLite says where they are. A segment of which more
than half is obsolete is copied to the end, a piece at a time, and freed. No file has a name: the
system frees them when the process ends, however it ends. Another process begins with an empty
store.

Between chunks the store changes, and while one runs it is only read, also by forks of the process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

from wallaroo.dataflow.stored_records import LocalStoreFailed, Place, Record
from wallaroo.system.disk_space import is_full
from wallaroo.system.unnamed_file import UnnamedFile

_HEAD = struct.Struct("<qIIII")
"""Hash, bucket, the sizes of key and entity, and the checksum of these two."""
_SEGMENT_BYTES = 256 * 1024**2
_LEAST_SEGMENT_BYTES = 16 * 1024**2
_SEGMENT_SHARE = 8
"""A segment has one part of so many of all bytes: the last one is never freed."""
_BLOCK_BYTES = 1024**2
"""Bytes that are read at once from a segment that is gone through."""
_HASHES = 500
"""Hashes in one query of the index: its text is then always the same."""
_INDEX_CACHE_KIB = 32 * 1024
_OFFSET_BITS = 32
_OFFSETS = (1 << _OFFSET_BITS) - 1
_at = attrgetter("at")
_MARKS = ",".join("?" * _HASHES)
_TABLE = (
    "CREATE TABLE records (hash INTEGER, at INTEGER, size INTEGER, bucket INTEGER, "
    "PRIMARY KEY (hash, at)) WITHOUT ROWID"
)


class _Segment(UnnamedFile):
    live = 0
    """Bytes of records that are in the index."""


class LocalStore:
    """Entities of one state.

    Args:
        directory: Where its files are, on a disk.

    Example:
        >>> store = LocalStore(Path(tempfile.gettempdir()))
        >>> store.write([Record(hash("a"), 0, b"a", b"1"), Record(hash("b"), 0, b"b", b"2")])
        >>> (found,) = store.find([hash("b"), hash("c")])
        >>> found.key, found.entity, store.count
        (b'b', b'2', 2)
        >>> store.remove([found.place])
        >>> store.find([hash("b")]), store.count
        ([], 1)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.count = 0
        """Number of entities."""
        self.reads = 0
        """Number of entities that were found so far."""
        self._segments: dict[int, _Segment] = {}
        self._last = -1
        """Number of the segment that is written to."""
        self._tidied = 0, 0
        """The segment that is being copied, and how far; 0, 0 between two."""
        self._moved: list[list[Record]] = []
        """What was copied while `pieces` went through the records, which might miss it."""
        self._debt = 0
        """Bytes that are still to be gone through, so that obsolete ones do not get too many."""
        self._problem: LocalStoreFailed | None = None
        with self._guarded():
            self._index = _index(directory)
        weakref.finalize(self, self._index.close)

    @property
    def size_bytes(self) -> int:
        """The bytes of its segments."""
        return sum(segment.end for segment in self._segments.values())

    def write(self, records: Sequence[Record]) -> None:
        """Add *records*, whose keys it does not have.

        Raises:
            LocalStoreFailed: They could not be written.
        """
        with self._guarded(), self._transaction():
            self._write(records)

    def find(self, hashes: Sequence[int], but: Container[int] = ()) -> list[Record]:
        """The records with one of *hashes*, but for those that are at one of *but*.

        Raises:
            LocalStoreFailed: They could not be read.
        """
        with self._guarded():
            records = self._read([one for one in self._places(hashes) if one.at not in but])
        self.reads += len(records)
        return records

    def remove(self, places: Iterable[Place]) -> None:
        """Remove the records at *places*.

        Raises:
            LocalStoreFailed: It cannot go on.
        """
        with self._guarded(), self._transaction():
            self._remove(places)

    def tidy(self) -> None:
        """Free space, in proportion to what was written and removed since the last call.

        Raises:
            LocalStoreFailed: It cannot go on.
        """
        with self._guarded():
            while self._debt > 0 and self._copy_some():
                pass
        self._debt = 0

    def pieces(self) -> Iterator[list[Record]]:
        """All records of now, some at a time; those removed before their turn may be missing.

        Raises:
            LocalStoreFailed: They could not be read.
        """
        moved = list[Record]()
        self._moved.append(moved)
        try:
            for number, until in [(number, one.end) for number, one in self._segments.items()]:
                at = 0
                while number in self._segments and at < until:
                    with self._guarded():
                        records, at = self._block(number, at)
                        live = self._live(records)
                    yield live
            if moved:
                yield moved
        finally:
            self._moved.remove(moved)

    def of_buckets(self, buckets: Iterable[int]) -> Iterator[tuple[int, Iterator[Record]]]:
        """The records of each of *buckets*, to be read before those of the next.

        Raises:
            LocalStoreFailed: They could not be read.
        """
        places = {bucket: array("q") for bucket in buckets}
        with self._guarded():
            for bucket, *place in self._index.execute("SELECT bucket, at, size FROM records"):
                if (found := places.get(bucket)) is not None:
                    found.extend(place)
        for bucket in list(places):
            yield bucket, self._read_some(places.pop(bucket))

    def _read_some(self, found: array[int]) -> Iterator[Record]:
        places = [Place(0, *place) for place in zip(found[::2], found[1::2], strict=True)]
        places.sort(key=_at)
        for start in range(0, len(places), _HASHES):
            with self._guarded():
                records = self._read(places[start : start + _HASHES])
            yield from records

    def _write(self, records: Sequence[Record]) -> None:
        rows, parts = list[tuple[int, int, int, int]](), list[bytes]()
        segment = self._segment()
        end = segment.end
        for record in records:
            key, entity = record.key, record.entity
            checksum = zlib.crc32(entity, zlib.crc32(key))
            head = _HEAD.pack(record.hash, record.bucket, len(key), len(entity), checksum)
            parts += (head, key, entity)
            at = self._last << _OFFSET_BITS | end
            size = _HEAD.size + len(key) + len(entity)
            rows.append((record.hash, at, size, record.bucket))
            end += size
        begin = segment.append(parts)
        rows.sort()
        self._index.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        segment.live += end - begin
        self.count += len(rows)
        self._debt += end - begin

    def _segment(self) -> _Segment:
        """The segment to write to."""
        size = max(_LEAST_SEGMENT_BYTES, self.size_bytes // _SEGMENT_SHARE)
        if self._last < 0 or self._segments[self._last].end >= min(_SEGMENT_BYTES, size):
            self._last += 1
            self._segments[self._last] = _Segment(self._directory)
        return self._segments[self._last]

    def _remove(self, places: Iterable[Place]) -> None:
        gone = sorted(places)
        self._index.executemany(
            "DELETE FROM records WHERE hash = ? AND at = ?", [one[:2] for one in gone]
        )
        for _, at, size in gone:
            number = at >> _OFFSET_BITS
            segment = self._segments[number]
            segment.live -= size
            self._debt += size
            if not segment.live and number != self._last:
                self._free(number)
        self.count -= len(gone)

    def _free(self, number: int) -> None:
        self._segments.pop(number).close()
        if self._tidied[0] == number:
            self._tidied = 0, 0

    def _places(self, hashes: Sequence[int]) -> list[Place]:
        """Where the records with one of *hashes* are."""
        query = "SELECT hash, at, size FROM records WHERE hash"
        if len(hashes) == 1:
            return [Place(*row) for row in self._index.execute(f"{query} = ?", hashes)]
        found = list[Place]()
        for start in range(0, len(hashes), _HASHES):
            some = sorted(hashes[start : start + _HASHES])
            some += some[-1:] * (_HASHES - len(some))
            found += map(Place._make, self._index.execute(f"{query} IN ({_MARKS})", some))
        return found

    def _read(self, places: list[Place]) -> list[Record]:
        """The records at *places*."""
        spots = [
            (self._segments[at >> _OFFSET_BITS], size, at & _OFFSETS, at)
            for _, at, size in sorted(places, key=_at)
        ]
        if len(spots) > 1 and hasattr(os, "posix_fadvise"):
            for segment, size, offset, _ in spots:  # the disk reads many at the same time
                os.posix_fadvise(segment.descriptor, offset, size, os.POSIX_FADV_WILLNEED)
        return [
            self._record(segment.read(offset, size), 0, at) for segment, size, offset, at in spots
        ]

    def _record(self, data: bytes, begin: int, at: int) -> Record:
        hash_, bucket, key_size, entity_size, checksum = _HEAD.unpack_from(data, begin)
        start = begin + _HEAD.size
        key = data[start : start + key_size]
        entity = data[start + key_size : start + key_size + entity_size]
        if zlib.crc32(entity, zlib.crc32(key)) != checksum:
            msg = "a record is not as it was written"
            raise OSError(msg)
        size = _HEAD.size + key_size + entity_size
        return Record(hash_, bucket, key, entity, Place(hash_, at, size))

    def _block(self, number: int, at: int) -> tuple[list[Record], int]:
        """Records from *at* on in a segment, also obsolete ones, and where the next ones are."""
        segment, size = self._segments[number], _BLOCK_BYTES
        found = list[Record]()
        while not found:
            data = segment.read(at, size)
            begin = 0
            while begin + _HEAD.size <= len(data):
                _, _, key_size, entity_size, _ = _HEAD.unpack_from(data, begin)
                end = begin + _HEAD.size + key_size + entity_size
                if end > len(data):
                    size = max(size, end - begin)
                    break
                found.append(self._record(data, begin, number << _OFFSET_BITS | (at + begin)))
                begin = end
            else:
                if not found and at + len(data) >= segment.end:
                    msg = "a segment is not as it was written"
                    raise OSError(msg)
        return found, at + begin

    def _live(self, records: list[Record]) -> list[Record]:
        """Those of *records* that are not obsolete."""
        live = {one.at for one in self._places([record.hash for record in records])}
        return [record for record in records if record.place.at in live]

    def _copy_some(self) -> bool:
        """Copy a block of a segment that is mostly obsolete; returns whether there is one."""
        number, at = self._tidied
        if not at:
            sealed = [
                (one.live, other)
                for other, one in self._segments.items()
                if other != self._last and one.live * 2 <= one.end
            ]
            if not sealed:
                return False
            _, number = min(sealed)
        records, end = self._block(number, at)
        live = self._live(records)
        debt = self._debt
        with self._transaction():
            self._tidied = number, end
            if live:
                self._write(live)
                for moved in self._moved:
                    moved.extend(live)
                self._remove(record.place for record in live)  # frees the segment with its last one
        if number in self._segments and end >= self._segments[number].end:
            self._free(number)
        self._debt = debt - sum(record.place.size for record in records)
        return True

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """If anything fails in the block, so does everything later.

        Raises:
            LocalStoreFailed: It did, or something has failed before.
        """
        if self._problem is not None:
            raise self._problem
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            lacks_room = (
                is_full(error)
                if isinstance(error, OSError)
                else error.sqlite_errorcode == sqlite3.SQLITE_FULL
            )
            self._problem = LocalStoreFailed.of(self._directory, error, lacks_room=lacks_room)
            raise self._problem from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._index.execute("BEGIN")
        yield
        self._index.execute("COMMIT")


def _index(directory: Path) -> sqlite3.Connection:
    """A new index without a name, which nothing else can open: no locks, no journal."""
    descriptor, name = tempfile.mkstemp(dir=directory)
    try:
        os.close(descriptor)
        index = sqlite3.connect(
            f"file:{quote(name)}?vfs=unix-none",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        for setting in (
            "journal_mode = OFF",
            "synchronous = OFF",
            "locking_mode = EXCLUSIVE",
            f"cache_size = -{_INDEX_CACHE_KIB}",
        ):
            index.execute(f"PRAGMA {setting}")
        index.execute(_TABLE)
    finally:
        Path(name).unlink()
    return index
