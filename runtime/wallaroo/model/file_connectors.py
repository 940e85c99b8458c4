"""Files as message sources and output sinks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from wallaroo.api.connectors import MessageSource, OutputSink
from wallaroo.errors import FrameError, RuntimeFailure
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.private_files import as_outside
from wallaroo.wire.framing import Framing

_BLOCK_BYTES = 1024 * 1024
"""Bytes to read from a file at a time."""


class FileSource(MessageSource[int]):
    """Reads frames or lines; the position of a message is the byte offset after it.

    Args:
        path: The file.
        framing: Layout of frames; None for lines, which are passed on without their line feeds.
        max_frame: Maximum length of a payload, in bytes.
        follow: Whether to wait for more data at the end of the file.
    """

    def __init__(
        self, path: Path, framing: Framing | None, max_frame: int, *, follow: bool
    ) -> None:
        self._path = path
        self._framing = framing
        self._max_frame = max_frame
        self._follow = follow

    def read(self, position: int | None) -> Iterator[tuple[bytes, int] | None]:
        """See `MessageSource.read`."""
        offset, rest = position or 0, b""
        cut = self._lines if self._framing is None else self._frames
        if stat.S_ISFIFO(self._path.stat().st_mode):  # to open it would wait for a writer
            msg = f"{self._path} is a pipe, of which nothing can be read again: use a file"
            raise FrameError(msg)
        with self._path.open("rb") as file:
            self._check_line(file, offset)
            file.seek(offset)
            while True:
                block = file.read(_BLOCK_BYTES)
                if block:
                    payloads, header, rest, problem = cut(rest + block)
                    for payload in payloads:
                        offset += header + len(payload)
                        yield payload, offset
                    if problem is not None:
                        msg = f"{self._path}, byte {offset}: {problem}"
                        raise FrameError(msg)
                    continue
                size = os.fstat(file.fileno()).st_size
                if size < offset:
                    msg = (
                        f"{self._path} has {size} bytes, but {offset} bytes of it have already "
                        "been read: the file must only grow"
                    )
                    raise FrameError(msg)
                if not self._follow:
                    break
                if not _is_at(self._path, file.fileno()):
                    msg = (
                        f"{self._path} was removed or replaced after {offset} bytes of it had been "
                        "read: the file must only grow"
                    )
                    raise FrameError(msg)
                yield None
        if rest and self._framing is not None:
            msg = f"{self._path}, byte {offset}: the last {len(rest)} bytes are an incomplete frame"
            raise FrameError(msg)
        if rest:  # a last line without a line feed
            yield rest, offset + len(rest)

    def __str__(self) -> str:
        return f"file {self._path}"

    def _check_line(self, file: BinaryIO, offset: int) -> None:
        """Refuse to resume in the middle of a line: the file was replaced or rewritten.

        Raises:
            FrameError: No line ends at *offset*.
        """
        if self._framing is not None or not offset:
            return
        file.seek(offset - 1)
        around = file.read(2)  # the last line may have had no line feed when it was read
        if len(around) > 1 and b"\n" not in around:
            msg = (
                f"{self._path} has changed: no line ends at byte {offset}, up to which it has been "
                "read; the file must only grow"
            )
            raise FrameError(msg)

    def _frames(self, data: bytes) -> tuple[list[bytes], int, bytes, str | None]:
        """Return payloads, the overhead of each in bytes, the remaining data, and a problem."""
        assert self._framing is not None
        scan, problem = self._framing.scan_until_error(data)
        payloads = self._framing.split(data[: scan.end])
        return payloads, self._framing.header_length, data[scan.end :], problem

    def _lines(self, data: bytes) -> tuple[list[bytes], int, bytes, str | None]:
        *lines, rest = data.split(b"\n")
        for number, line in enumerate((*lines, rest)):
            if len(line) > self._max_frame:
                problem = f"the line is longer than the limit of {self._max_frame} bytes"
                return lines[:number], 1, b"", problem
        return lines, 1, rest, None


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file *descriptor* is the one that has the name *path*."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


class FileSink(OutputSink):
    """Appends to a file, and stores the position in a second file next to it.

    When the file is opened, data after the stored position is truncated: it will be written again.

    Args:
        path: The file.
        lines: Whether to write a line feed after each output.
    """

    def __init__(self, path: Path, *, lines: bool) -> None:
        self._path = path
        self._note_path = path.with_name(f"{path.name}.position")
        self.lines = lines
        """Whether it writes a line feed after each output."""
        self._end = b"\n" if lines else b""
        self._file = -1
        self._numbering = ""
        self._next = 0
        """Number of the next output to write."""
        self._size = 0
        """Size of the valid part of the file, in bytes."""

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
        new = outputs[max(0, self._next - first) :]
        if not new:
            return
        if not _is_at(self._path, self._file):
            msg = f"{self._path} was removed or replaced: a new file gets the next outputs"
            raise RuntimeFailure(msg)
        data = memoryview(b"".join(part for output in new for part in (output, self._end)))
        size = self._size
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
        next_number = noted["next"] if noted.get("numbering") == numbering else 0
        self._note(next_number, min(size, noted.get("bytes", size)))
        os.ftruncate(self._file, self._size)

    def _noted(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            try:
                noted: dict[str, Any] = json.loads(self._note_path.read_text())
            except ValueError:
                msg = f"{self._note_path} is corrupt; move it and {self._path} to another directory"
                raise RuntimeFailure(msg) from None
            return noted
        return {}

    def _note(self, next_number: int, size: int) -> None:
        """Store *size* as the position: data before it will not be truncated."""
        noted = {"numbering": self._numbering, "next": next_number, "bytes": size}
        write_durably(self._note_path, json.dumps(noted))
        self._next, self._size = next_number, size
