"""Files as output sinks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wallaroo.api.connectors import OutputSink
from wallaroo.errors import SKIP_LOST, RuntimeFailure
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.private_files import as_outside

_REMEDY = f"restore the rest; to append the next outputs to what is left, {SKIP_LOST}"


class FileSink(OutputSink):
    """Appends to a file, and stores the position in a second file next to it.

    When the file is opened, data after the stored position is truncated: it will be written again.

    Args:
        path: The file.
        lines: Whether to write a line feed after each output.
        skips_lost: Whether to go on with a file that has become shorter.
    """

    def __init__(self, path: Path, *, lines: bool, skips_lost: bool = False) -> None:
        self._path = path
        self._note_path = path.with_name(f"{path.name}.position")
        self._end = b"\n" if lines else b""
        self._skips_lost = skips_lost
        self._file = -1
        self._numbering = ""
        self._next: int | None = None
        """Number of the next output to write; None if none was written under this numbering."""
        self._size = 0
        """Size of the valid part of the file, in bytes."""

    def skipping_lost(self) -> FileSink:
        """The same, for a file that may have become shorter."""
        return FileSink(self._path, lines=bool(self._end), skips_lost=True)

    def open(self, numbering: str) -> None:
        """See `OutputSink.open`."""
        new = not self._path.exists()
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if new:  # others may be meant to read the outputs
                as_outside(self._file)
            self._begin(numbering)
        except BaseException:
            self.close()
            raise

    def write(self, first: int, outputs: Sequence[bytes]) -> None:
        """See `OutputSink.write`."""
        if self._next is not None and first > self._next and not self._skips_lost:
            msg = (
                f"{self._path} has the first {self._next:,} outputs, and {first:,} were delivered: "
                f"it was restored from a backup; {_REMEDY}"
            )
            raise RuntimeFailure(msg)
        new = outputs[max(0, (self._next or 0) - first) :]
        if not new:
            return
        if not _is_at(self._path, self._file):
            msg = f"{self._path} was removed or replaced: a new file gets the next outputs"
            raise RuntimeFailure(msg)
        self._check_size(os.fstat(self._file).st_size, self._size)
        data = memoryview(b"".join(part for output in new for part in (output, self._end)))
        size = min(self._size, os.fstat(self._file).st_size)
        while data:
            written = os.pwrite(self._file, data, size)
            data, size = data[written:], size + written
        os.fsync(self._file)
        self._note(first + len(outputs), size)

    def close(self) -> None:
        """See `OutputSink.close`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __str__(self) -> str:
        return f"file {self._path}"

    def _begin(self, numbering: str) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"{self._path} is locked: another process is writing to it"
            raise RuntimeFailure(msg) from None
        size, noted = os.fstat(self._file).st_size, self._noted()
        self._numbering = numbering
        is_other = noted.get("inode", 0) != os.fstat(self._file).st_ino
        if noted.get("numbering") == numbering and not (size == 0 and is_other):
            self._check_size(size, noted["bytes"])
        next_number = noted["next"] if noted.get("numbering") == numbering else None
        self._note(next_number, min(size, noted.get("bytes", size)))
        os.ftruncate(self._file, self._size)

    def _check_size(self, size: int, written: int) -> None:
        """Refuse a file that has become shorter, unless it is to be appended to.

        Raises:
            RuntimeFailure: It has.
        """
        if size < written and not self._skips_lost:
            msg = (
                f"{self._path} has {size:,} bytes, and {written:,} bytes of outputs were written: "
                f"it was shortened, or restored from a backup; {_REMEDY}"
            )
            raise RuntimeFailure(msg)

    def _noted(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            try:
                noted: dict[str, Any] = json.loads(self._note_path.read_text())
            except ValueError:
                msg = f"{self._note_path} is corrupt; move it and {self._path} to another directory"
                raise RuntimeFailure(msg) from None
            return noted
        return {}

    def _note(self, next_number: int | None, size: int) -> None:
        """Store *size* as the position: data before it will not be truncated."""
        inode = os.fstat(self._file).st_ino
        noted = {
            "numbering": self._numbering,
            "next": next_number,
            "bytes": size,
            "inode": inode,
        }
        write_durably(self._note_path, json.dumps(noted))
        self._next, self._size = next_number, size


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file *descriptor* is the one that has the name *path*."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
