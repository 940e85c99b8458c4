"""The calls of the system that the log makes, so that a simulated disk can answer them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from wallaroo.system.private_files import DIRECTORY_MODE

_FILE_MODE = 0o600


class Disk:
    """The disk of the system. All errors are of type `OSError`."""

    pwritev = staticmethod(os.pwritev)
    pread = staticmethod(os.pread)
    fdatasync = staticmethod(os.fdatasync)
    truncate = staticmethod(os.ftruncate)
    duplicate = staticmethod(os.dup)
    close = staticmethod(os.close)

    def make_directory(self, directory: Path) -> None:
        """Make a directory durably, unless it exists."""
        try:
            directory.mkdir(DIRECTORY_MODE)
        except FileExistsError:
            return
        self.sync_directory(directory.parent)

    def names(self, directory: Path) -> list[str]:
        """The names of the files in a directory, which may not exist."""
        try:
            return os.listdir(directory)  # noqa: PTH208 - names are what is wanted
        except FileNotFoundError:
            return []

    def create(self, file: Path) -> int:
        """Create a file and return its descriptor."""
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)

    def open(self, file: Path, *, writable: bool = False) -> int:
        """Open a file and return its descriptor."""
        return os.open(file, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)

    def size(self, descriptor: int) -> int:
        """The length of a file."""
        return os.fstat(descriptor).st_size

    def time(self, descriptor: int) -> int:
        """When a file was changed last, in nanoseconds since the Unix epoch."""
        return os.fstat(descriptor).st_mtime_ns

    def set_time(self, descriptor: int, ns: int) -> None:
        """Let a file be changed last at a time, if its file system lets the process say so."""
        with contextlib.suppress(OSError):
            os.utime(descriptor, ns=(ns, ns))

    def rename(self, file: Path, other: Path) -> None:
        """Give a file another name."""
        file.rename(other)

    def unlink(self, file: Path) -> None:
        """Remove a file."""
        file.unlink()

    def sync_directory(self, directory: Path) -> None:
        """Wait until all names of files in a directory are on disk."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def is_at(self, descriptor: int, file: Path) -> bool:
        """Whether a descriptor is of the file that has this name now."""
        try:
            return os.path.samestat(os.fstat(descriptor), file.stat())
        except FileNotFoundError:
            return False

    def lock(self, descriptor: int, *, shared: bool) -> bool:
        """Lock a file, until its descriptor is closed; False if another has locked it."""
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_ONE_READ = 64 * 1024**2


def content(disk: Disk, descriptor: int, length: int | None = None, offset: int = 0) -> bytes:
    """Read a file, or *length* bytes of it from *offset* on; fewer if it is shorter."""
    if length is None:
        length = disk.size(descriptor) - offset
    pieces: list[bytes] = []
    while length > 0:
        piece = disk.pread(descriptor, min(length, _ONE_READ), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_all(disk: Disk, descriptor: int, data: bytes, offset: int) -> None:
    """Write all of *data* at *offset*."""
    rest: Sequence[memoryview] = [memoryview(data)]
    while rest[0]:
        written = disk.pwritev(descriptor, rest, offset)
        offset += written
        rest = [rest[0][written:]]
