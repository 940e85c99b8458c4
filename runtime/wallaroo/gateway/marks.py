"""High-water marks of databases, each in a file beside its database.

SQLite takes a write-ahead log that was cut, or is missing, for one to which nothing was written:
what was lost with it would be missed by nobody. A mark is written after each commit and costs no
sync, so it may be behind the database after a power failure, and is never ahead of it.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

_LAYOUT = struct.Struct(">32sQI")
_MODE = 0o600


class Mark(NamedTuple):
    """How far a database was."""

    name: str
    """Random name of the database, or of its last opening."""
    reached: int
    """A number that only grows."""


def mark_file(database: Path) -> Path:
    """The file of the mark of a database."""
    return database.with_name(f"{database.name}-mark")


def read_mark(database: Path) -> Mark | None:
    """The mark of a database; None if there is none, or it was not written completely.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     database = Path(directory, "journal.db")
        ...     writer = MarkWriter(database)
        ...     writer.note("a" * 32, 7)
        ...     writer.close()
        ...     read_mark(database), read_mark(Path(directory, "outbox.db"))
        (Mark(name='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', reached=7), None)
    """
    with contextlib.suppress(OSError, struct.error, ValueError):
        name, reached, total = _LAYOUT.unpack(mark_file(database).read_bytes())
        if total == _sum(name, reached):
            return Mark(name.decode("ascii"), reached)
    return None


def remove_mark(database: Path) -> None:
    """Forget how far a database was."""
    mark_file(database).unlink(missing_ok=True)


class MarkWriter:
    """Writes the mark of one database. A disk that is full leaves the mark as it is.

    Args:
        database: File of the database.
    """

    def __init__(self, database: Path) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(
                mark_file(database), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _MODE
            )

    def note(self, name: str, reached: int, *, durably: bool = False) -> None:
        """Note how far the database is; *durably* if the end of the machine is not to undo it.

        Args:
            name: Random name of the database, or of its last opening: 32 characters.
            reached: How far it is.
            durably: Whether to wait for the disk.
        """
        raw = name.encode("ascii")
        with contextlib.suppress(OSError):
            os.pwrite(self._file, _LAYOUT.pack(raw, reached, _sum(raw, reached)), 0)
            if durably:
                os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _sum(name: bytes, reached: int) -> int:
    return zlib.crc32(b"%s %d" % (name, reached))
