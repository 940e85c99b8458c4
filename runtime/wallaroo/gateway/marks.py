"""The high-water mark of a log, in a file beside it.

A log that was cut is a shorter log: what was lost with its end would be missed by nobody. The mark
is written after each sync and costs none itself, so it may be behind the log after a power failure,
and is never ahead of it.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

_LAYOUT = struct.Struct(">32s32sQQI")
_MODE = 0o600


class Mark(NamedTuple):
    """How far a log was."""

    name: str
    """Random name of the log: 32 characters."""
    record: int
    """Number of its last record."""
    end: int
    """Offset after its last message."""
    opening: str
    """Random name of its last opening: 32 characters. A copy of the log that was continued lacks
    it."""


def mark_file(log: Path) -> Path:
    """The file of the mark of a log."""
    return log.with_name(f"{log.name}-mark")


def read_mark(log: Path) -> Mark | None:
    """The mark of a log; None if there is none, or it was not written completely.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     log = Path(directory, "log")
        ...     writer = MarkWriter(log)
        ...     mark = Mark("a" * 32, 7, 5, "b" * 32)
        ...     writer.note(mark)
        ...     writer.close()
        ...     read_mark(log) == mark, read_mark(Path(directory, "other"))
        (True, None)
    """
    with contextlib.suppress(OSError, struct.error, ValueError):
        name, opening, record, end, total = _LAYOUT.unpack(mark_file(log).read_bytes())
        if total == _sum(name, opening, record, end):
            return Mark(name.decode("ascii"), record, end, opening.decode("ascii"))
    return None


def remove_mark(log: Path) -> None:
    """Forget how far a log was."""
    mark_file(log).unlink(missing_ok=True)


class MarkWriter:
    """Writes the mark of one log. A disk that is full leaves the mark as it is.

    Args:
        log: The directory of the log.
    """

    def __init__(self, log: Path) -> None:
        self._file, self._is_synced = -1, False
        with contextlib.suppress(OSError):
            self._file = os.open(mark_file(log), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _MODE)

    def note(self, mark: Mark) -> None:
        """Note how far the log is; the first time, wait until it is on disk."""
        names = mark.name.encode("ascii"), mark.opening.encode("ascii")
        values = *names, mark.record, mark.end
        with contextlib.suppress(OSError):
            os.pwrite(self._file, _LAYOUT.pack(*values, _sum(*values)), 0)
            if not self._is_synced:
                os.fsync(self._file)
                self._is_synced = True

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _sum(name: bytes, opening: bytes, record: int, end: int) -> int:
    return zlib.crc32(b"%s %s %d %d" % (name, opening, record, end))
