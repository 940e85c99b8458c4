"""Files that are followed while they are rotated: renamed, or copied and truncated, and made anew.

A position names the file by device and inode, and has a checksum of what lies before it. So it is
found under the name that rotation has given it, or in a copy; it is read to its end, then the files
that were rotated after it, and then the one that has the name now.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import structlog

Seen = tuple[int, int, int, int]
"""How far a file was read, its device and inode, and the checksum of the bytes before."""
_BEFORE_BYTES = 512
"""Bytes before a position that its checksum is of."""
STILL_S = 5.0
"""Seconds without a change after which a file that was rotated is at its end: programs may write to
it for some time."""
_ROTATED = r"([.\-_]\d[\d.\-_T:]*)?"
"""What rotation puts before or after the suffix of a name: a number, or a date."""

log = structlog.get_logger("wallaroo.gateway")


class FollowedFile:
    """The files that one name has had.

    Args:
        path: The name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def found(self, seen: Seen) -> tuple[Path, int]:
        """The file that *seen* is of, and where to go on in it: at the beginning if it is gone."""
        offset, *identity, _ = seen
        here = [self._path, *self._beside()]
        same = [file for file in here if _identity(file) == identity]
        copies = [self._path, *self._rotated()]
        for file in (*same, *copies):
            if has(file, seen):
                return file, offset
        log.warning(
            "file was replaced",
            reads=str(self._path),
            reason=f"the file of which {offset} bytes were read is not in {self._path.parent} any "
            "more: what it had after them, if anything, was not read",
            effect="the file that has the name now is read from its beginning",
        )
        return self._path, 0

    def is_left(self, descriptor: int) -> bool:
        """Whether an open file has another name now, and has not changed for some time."""
        status = os.fstat(descriptor)
        try:
            if os.path.samestat(status, self._path.stat()):
                return False
        except FileNotFoundError:
            return False  # until there is a new one
        return time.time() - status.st_mtime >= STILL_S

    def after(self, descriptor: int, seen: Seen) -> tuple[Path, int]:
        """What to read after an open file, which was truncated or left, and where in it."""
        if not has(descriptor, seen):
            return self.found(seen)
        done = os.fstat(descriptor)
        later = [
            (status.st_mtime_ns, file)
            for file in self._rotated()
            if (status := file.stat()).st_mtime_ns > done.st_mtime_ns
            and not os.path.samestat(status, done)
        ]
        log.info("file was rotated", reads=str(self._path), after_bytes=seen[0])
        return min(later, default=(0, self._path))[1], 0

    def _beside(self) -> Iterator[Path]:
        return (file for file in self._path.parent.iterdir() if file.is_file())

    def _rotated(self) -> list[Path]:
        """Files with the names that rotation gives, those that were changed last first."""
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        name = re.compile(f"{stem}{_ROTATED}{suffix}{_ROTATED}")
        found = [
            file
            for file in self._beside()
            if name.fullmatch(file.name) and file.name != self._path.name
        ]
        return sorted(found, key=lambda file: file.stat().st_mtime_ns, reverse=True)


class Trail:
    """How far an open file was read.

    Args:
        descriptor: The file.
        offset: Where reading begins.
    """

    def __init__(self, descriptor: int, offset: int) -> None:
        status = os.fstat(descriptor)
        self._descriptor = descriptor
        self._file = status.st_dev, status.st_ino
        self.offset = offset
        self._before = _before(descriptor, offset)

    def note(self, data: bytes) -> None:
        """Note that *data* was read."""
        self.offset += len(data)
        self._before = (self._before + data)[-_BEFORE_BYTES:]

    def pass_over(self, size: int) -> None:
        """Note that *size* bytes were read."""
        self.offset += size
        self._before = _before(self._descriptor, self.offset)

    @property
    def seen(self) -> Seen:
        """The position."""
        return self.offset, *self._file, zlib.crc32(self._before)


def _identity(file: Path) -> list[int]:
    try:
        status = file.stat()
    except FileNotFoundError:
        return []
    return [status.st_dev, status.st_ino]


def has(file: Path | int, seen: Seen) -> bool:
    """Whether *file*, a path or a descriptor, has what lies before the position *seen*."""
    if isinstance(file, int):
        offset, *_, checksum = seen
        return os.fstat(file).st_size >= offset and zlib.crc32(_before(file, offset)) == checksum
    try:
        with file.open("rb") as opened:
            return has(opened.fileno(), seen)
    except OSError:
        return False


def _before(descriptor: int, offset: int) -> bytes:
    begin = max(0, offset - _BEFORE_BYTES)
    return os.pread(descriptor, offset - begin, begin)
