"""Files of frames or lines as message sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from wallaroo.api.connectors import MessageSource
from wallaroo.connectors.rotation import FollowedFile, Seen, Trail, has
from wallaroo.errors import FrameError
from wallaroo.wire.framing import Framing

_BLOCK_BYTES = 1024 * 1024
"""Bytes to read from a file at a time."""


class FileSource(MessageSource[int | Seen]):
    """Reads frames or lines; the position of a message is the end of it.

    A file that is followed is read through its rotations.

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

    def read(self, position: int | Seen | None) -> Iterator[tuple[bytes, int | Seen] | None]:
        """See `MessageSource.read`."""
        if stat.S_ISFIFO(self._path.stat().st_mode):  # to open it would wait for a writer
            msg = f"{self._path} is a pipe, of which nothing can be read again: use a file"
            raise FrameError(msg)
        followed = FollowedFile(self._path) if self._follow else None
        path, offset = self._path, position if isinstance(position, int) else 0
        if isinstance(position, tuple):
            path, offset = (path, position[0]) if followed is None else followed.found(position)
        while True:
            with path.open("rb") as file:
                self._check_line(file, offset)
                file.seek(offset)
                trail = Trail(file.fileno(), offset)
                for payload in self._payloads(file, trail, followed):
                    if payload is None:
                        yield None
                    else:
                        yield payload, trail.offset if followed is None else trail.seen
                if followed is None:
                    return
                path, offset = followed.after(file.fileno(), trail.seen)

    def _payloads(
        self, file: BinaryIO, trail: Trail, followed: FollowedFile | None
    ) -> Iterator[bytes | None]:
        """Yield the payloads of one file, with *trail* after each; None to wait for more."""
        cut, rest = self._lines if self._framing is None else self._frames, b""
        while True:
            block = file.read(_BLOCK_BYTES)
            if followed is not None and not has(file.fileno(), trail.seen):
                return  # it was truncated
            if block:
                data, end = rest + block, 0
                payloads, header, rest, problem = cut(data)
                for payload in payloads:
                    begin, end = end, end + header + len(payload)
                    if followed is None:
                        trail.offset += end - begin
                    else:
                        trail.note(data[begin:end])
                    yield payload
                if problem is not None:
                    msg = f"{self._path}, byte {trail.offset}: {problem}"
                    raise FrameError(msg)
                continue
            if followed is None:
                self._check_size(file, trail.offset)
                break
            if followed.is_left(file.fileno()):
                break
            yield None
        if rest and self._framing is not None:
            msg = (
                f"{self._path}, byte {trail.offset}: the last {len(rest)} bytes are an incomplete "
                "frame"
            )
            raise FrameError(msg)
        if rest:  # a last line without a line feed
            trail.note(rest)
            yield rest

    def __str__(self) -> str:
        return f"file {self._path}"

    def _check_size(self, file: BinaryIO, offset: int) -> None:
        if (size := os.fstat(file.fileno()).st_size) < offset:
            msg = (
                f"{self._path} has {size} bytes, but {offset} bytes of it have already "
                "been read: the file must only grow"
            )
            raise FrameError(msg)

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
