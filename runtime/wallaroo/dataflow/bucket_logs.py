"""The log of a bucket: its head, which proves that the records under it are its own and newest.

A record begins with a checksum of its content. A head names its log, and when it was last written,
and has a checksum of itself and one of all records of the log in order. So records that are
changed, missing, too many, or of another log are found, and so is a log that is older than it
should be.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wallaroo.errors import RESTORE, DamagedFile

_SUM = struct.Struct(">I")
_ODD = re.compile(r"[^\w-]+")


@dataclass(frozen=True)
class Head:
    """The metadata of a bucket's log."""

    count: int = 0
    """Number of records ever appended, which is the index of the next one."""
    base_bytes: int = 0
    """Size of the record of all entities at the beginning of the log."""
    tail_bytes: int = 0
    """Size of the later records that are not included in it."""
    log: str = ""
    """Name of the log; see `log_name`."""
    at: int = -1
    """Number of the chunk at whose end it was last written; -1 for none."""
    sum: int = 0
    """Checksum of the log's name and of all its records in order."""

    @classmethod
    def of(cls, log: str) -> Head:
        """The head of an empty log.

        Args:
            log: Name of the log.
        """
        return cls(log=log, sum=zlib.crc32(log.encode()))

    @property
    def log_bytes(self) -> int:
        """Size of the log."""
        return self.base_bytes + self.tail_bytes

    def appended(self, record: bytes, at: int) -> Head:
        """Return the head after another *record*, at the end of *at*."""
        tail, total = self.tail_bytes + len(record), extended(self.sum, record)
        return Head(self.count + 1, self.base_bytes, tail, self.log, at, total)

    def rebased(self, base: bytes, record: bytes) -> Head:
        """Return the head of a log of *base*, which includes the last *record*, and the record."""
        total = extended(extended(Head.of(self.log).sum, base), record)
        return Head(self.count, len(base), 0, self.log, self.at, total)

    def text(self) -> str:
        """All but the three numbers, which are stored beside it, and a checksum of everything.

        Example:
            >>> head = Head.of("id-1:7").appended(sealed_record(b"content"), at=3)
            >>> Head.from_text(head.text(), head.count, head.base_bytes, head.tail_bytes) == head
            True
        """
        values = f"{self.log} {self.at} {self.sum}"
        return f"{self._own_sum(values)} {values}"

    @classmethod
    def from_text(cls, text: str, count: int, base_bytes: int, tail_bytes: int) -> Head:
        """The head whose `text` is *text*.

        Raises:
            DamagedFile: It is not as it was written.
        """
        own, _, values = text.partition(" ")
        try:
            log, at, total = values.split()
            head = cls(count, base_bytes, tail_bytes, log, int(at), int(total))
            if int(own) == head._own_sum(values):
                return head
        except ValueError:
            pass
        msg = f"the head {text[:60]!r} of a log does not match its checksum"
        raise damaged(msg)

    def _own_sum(self, values: str) -> int:
        return zlib.crc32(f"{values} {self.count} {self.base_bytes} {self.tail_bytes}".encode())


def log_name(run: str, bucket: int) -> str:
    """The name of a bucket's log.

    Args:
        run: Name of the query, as `run_of` its checkpoint.
        bucket: Number of the bucket.

    Example:
        >>> log_name('{"id":"d99157a2-c857"}', 7)
        'id-d99157a2-c857:7'
    """
    return f"{_ODD.sub('-', run).strip('-')}:{bucket}"


def damaged(problem: str) -> DamagedFile:
    """The error that the state is damaged."""
    return DamagedFile(f"the state in the checkpoint is damaged: {problem}; {RESTORE}")


def sealed_record(content: bytes) -> bytes:
    """A record with *content*."""
    return _SUM.pack(zlib.crc32(content)) + content


def content_of(record: bytes) -> memoryview:
    """The content of a *record*.

    Raises:
        DamagedFile: It is not as it was written.
    """
    content = memoryview(record)[_SUM.size :]
    if len(record) < _SUM.size or _SUM.unpack_from(record)[0] != zlib.crc32(content):
        msg = f"a record of {len(record)} bytes does not match its checksum"
        raise damaged(msg)
    return content


def extended(total: int, record: bytes) -> int:
    """The checksum of a log, which was *total*, with another *record*."""
    return zlib.crc32(memoryview(record)[: _SUM.size], total)


def checked(log: str, head: Head | None, records: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the *records* of a log.

    Args:
        log: Name of the log.
        head: Its head; None if it has none.
        records: All its records in order.

    Raises:
        DamagedFile: They are not those that the head belongs to, or the head is of another log;
            in the former case after the last record.
    """
    if head is not None and head.log != log:
        msg = f"expected the log {log}, found {head.log or 'another one'}"
        raise damaged(msg)
    total = Head.of(log).sum
    for record in records:
        total = extended(total, record)
        yield record
    if total != (Head.of(log) if head is None else head).sum:
        msg = f"the records of the log {log} are not those that its head belongs to"
        raise damaged(msg)


def check_age(head: Head, chunk: int) -> None:
    """Refuse a log that is older than the end of *chunk*, at which it was saved.

    Raises:
        DamagedFile: It is.
    """
    if head.at < chunk:
        has = "does not exist" if head.at < 0 else f"was last written at the end of {head.at}"
        msg = f"the log {head.log} {has}, and the state is as of the end of {chunk}"
        raise damaged(msg)
