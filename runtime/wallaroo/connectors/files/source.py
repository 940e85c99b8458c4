"""Files of frames or lines as message sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from wallaroo.api.connectors import MessageSource
from wallaroo.errors import FrameError
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
                if not is_at(self._path, file.fileno()):
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


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file *descriptor* is the one that has the name *path*."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
