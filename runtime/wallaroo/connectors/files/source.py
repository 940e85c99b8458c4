"""Files of frames or lines as message sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wallaroo.api.connectors import MessageSource
from wallaroo.connectors.rotation import FollowedFile, Seen, Trail, has
from wallaroo.errors import FrameError
from wallaroo.system.printable import counted
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import Refusal, beginning, refusal

_BLOCK_BYTES = 1024 * 1024
"""Bytes to read from a file at a time."""
_KEPT_BYTES = 1024
"""Bytes of a message over the limit that are kept."""


Position = int | tuple[int, int] | Seen
"""The end of a message. For the last one, if it may go on when the file grows, where to go on (the
beginning of a frame, the end of a line) and the size of the file; in a file that is followed, what
names the file as well."""


class FileSource(MessageSource[Position]):
    """Reads frames or lines.

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

    def read(self, position: Position | None) -> Iterator[tuple[bytes, Position] | None]:
        """See `MessageSource.read`."""
        if stat.S_ISFIFO(self._path.stat().st_mode):  # to open it would wait for a writer
            msg = f"{self._path} is a pipe, of which nothing can be read again: use a file"
            raise FrameError(msg)
        followed = FollowedFile(self._path) if self._follow else None
        path, offset, size = self._path, position if isinstance(position, int) else 0, -1
        if isinstance(position, tuple):
            offset = position[0]
            if len(position) == 2:  # noqa: PLR2004
                size = position[1]
            elif followed is not None:
                path, offset = followed.found(position)
        while True:
            with path.open("rb") as file:
                if followed is None and os.fstat(file.fileno()).st_size == size:
                    return
                in_line = self._is_in_line(file, offset, position)
                file.seek(offset)
                trail = Trail(file.fileno(), offset)
                yield from self._messages(file, trail, followed, in_line=in_line)
                if followed is None:
                    return
                path, offset = followed.after(file.fileno(), trail.seen)
                position = None

    def _messages(
        self, file: BinaryIO, trail: Trail, followed: FollowedFile | None, *, in_line: bool
    ) -> Iterator[tuple[bytes, Position] | None]:
        """Yield the messages of one file, from where *trail* is: within a line, if *in_line*."""
        start = trail.offset
        for item in self._payloads(file, trail, followed):
            if item is None:
                yield None
                continue
            here: Position = trail.offset
            if isinstance(item, _Last):
                payload, begin = item.payload, trail.offset
                trail.pass_over(item.size)
                here = (trail.offset if self._framing is None else begin, trail.offset)
            else:
                payload = item
            if in_line:
                in_line = False
                if payload in {b"", b"\r"}:
                    continue  # the line feed of a line that was taken without it
                payload = self._rest_of_line(payload, start)
            yield payload, here if followed is None else trail.seen

    def _payloads(
        self, file: BinaryIO, trail: Trail, followed: FollowedFile | None
    ) -> Iterator[bytes | _Last | None]:
        """Yield the payloads of one file, with *trail* after each; None to wait for more.

        At the last one, if it is not complete, *trail* is still before it.
        """
        rest, long = b"", None
        while True:
            block = file.read(_BLOCK_BYTES)
            if followed is not None and not has(file.fileno(), trail.seen):
                return  # it was truncated
            if block:
                notes = followed is not None
                rest, long = yield from self._cut(rest + block, long, trail, notes=notes)
                continue
            if followed is None:
                self._check_size(file, trail.offset)
                break
            if followed.is_left(file.fileno()):
                break
            yield None
        left = len(rest) if long is None else long.size
        if left and self._framing is not None:
            yield self._incomplete(rest if long is None else long.beginning, left, trail.offset)
        elif long is not None:  # a last line without a line feed
            yield _Last(self._passed_over(long, trail), 0)
        elif rest:
            yield _Last(rest, len(rest))

    def _cut(
        self, data: bytes, long: _Long | None, trail: Trail, *, notes: bool
    ) -> Generator[bytes, None, tuple[bytes, _Long | None]]:
        """Yield the payloads of *data*, which begins with the rest of *long*, if that is not None.

        Returns:
            The rest of *data*, and a message over the limit to which what comes next belongs.

        Raises:
            FrameError: A header tells no length.
        """
        cut = self._lines if self._framing is None else self._frames
        while data:
            if long is not None:
                data = long.take(data)
                if not long.is_complete:
                    break
                yield self._passed_over(long, trail)
            payloads, header, rest, found = cut(data)
            end = 0
            for payload in payloads:
                begin, end = end, end + header + len(payload)
                if notes:
                    trail.note(data[begin:end])
                else:
                    trail.offset += end - begin
                yield payload
            if isinstance(found, str):
                msg = f"{self._path}, byte {trail.offset}: {found}"
                raise FrameError(msg)
            data, long = rest, found
            if long is None:
                return data, None
        return b"", long if long is not None and not long.is_complete else None

    def _incomplete(self, data: bytes, size: int, offset: int) -> _Last:
        """Return the incomplete frame of which the file has *size* bytes, beginning with *data*."""
        framing = self._framing
        assert framing is not None
        header = framing.header_length
        what = f"the file ends after {size} of the {header} bytes of a header"
        if size >= header:
            length = framing.length(data[:header])
            what = f"the header announces {length} bytes, but the file has {size - header} of them"
        shown = beginning(data[header:] or data)
        problem = f"{self._path}, byte {offset}: {what}; they begin with {shown}"
        return _Last(refusal(problem), size)

    def _passed_over(self, long: _Long, trail: Trail) -> bytes:
        """What stands for *long*, with *trail* after it."""
        size = long.size - long.header - (long.total is None and long.is_complete)
        message = long.beginning[long.header :][:size]
        place = f"{self._path}, byte {trail.offset}"
        trail.pass_over(long.size)
        return refusal(
            f"{place}: a message of {size} bytes; the limit is {self._max_frame}: raise "
            f"--max-frame; it begins with {beginning(message)}"
        )

    def __str__(self) -> str:
        return f"file {self._path}"

    def _check_size(self, file: BinaryIO, offset: int) -> None:
        if (size := os.fstat(file.fileno()).st_size) < offset:
            msg = (
                f"{self._path} has {size} bytes, but {offset} bytes of it have already "
                "been read: the file must only grow"
            )
            raise FrameError(msg)

    def _is_in_line(self, file: BinaryIO, offset: int, position: Position | None) -> bool:
        """Whether the line before *offset* was taken when it had no line feed yet.

        Raises:
            FrameError: It had one by *position*: the file was replaced or rewritten.
        """
        if self._framing is not None or not offset:
            return False
        file.seek(offset - 1)
        if file.read(1) in {b"\n", b""}:
            return False
        if isinstance(position, int):
            msg = (
                f"{self._path} has changed: no line ends at byte {offset}, up to which it has been "
                "read; the file must only grow"
            )
            raise FrameError(msg)
        return True

    def _rest_of_line(self, payload: bytes, offset: int) -> bytes:
        """What stands for *payload*, the rest from *offset* on of a line that was taken."""
        if isinstance(payload, Refusal):
            return payload
        return refusal(
            f"{self._path}, byte {offset}: the rest of a line, {counted(len(payload), 'byte')}: "
            "what came before it was taken as a message when the file ended there; it begins with "
            f"{beginning(payload)}"
        )

    def _frames(self, data: bytes) -> _Cut:
        framing = self._framing
        assert framing is not None
        header = framing.header_length
        scan, problem = framing.scan_until_error(data)
        payloads, rest = framing.split(data[: scan.end]), data[scan.end :]
        length = None if problem is None else framing.length(rest[:header])
        found = problem if length is None else _Long(header, header + length)
        return payloads, header, rest, found

    def _lines(self, data: bytes) -> _Cut:
        *lines, rest = data.split(b"\n")
        for number, line in enumerate((*lines, rest)):
            if len(line) > self._max_frame:
                before = lines[:number]
                rest = data[number + sum(map(len, before)) :]
                return before, 1, rest, _Long()
        return lines, 1, rest, None


class _Last(NamedTuple):
    """What a file ends with: a frame that is incomplete, or a line without a line feed."""

    payload: bytes
    """The line; what becomes the dead letter of a frame."""
    size: int
    """Bytes of it in the file that are still to be passed over."""


class _Long:
    """A message over the limit, of which only the beginning is kept.

    Args:
        header: Bytes of its header.
        total: Bytes of it with its header; None if it ends with a line feed.
    """

    def __init__(self, header: int = 0, total: int | None = None) -> None:
        self.header, self.total = header, total
        self.beginning = b""
        self.size = 0
        """Bytes of it that were taken."""
        self.is_complete = False

    def take(self, data: bytes) -> bytes:
        """Take what of *data* belongs to it; returns the rest."""
        end = data.find(b"\n") + 1 if self.total is None else self.total - self.size
        self.is_complete = 0 < end <= len(data)
        mine = data[:end] if self.is_complete else data
        self.beginning = (self.beginning + mine[:_KEPT_BYTES])[:_KEPT_BYTES]
        self.size += len(mine)
        return data[len(mine) :]


_Cut = tuple[list[bytes], int, bytes, _Long | str | None]
"""Payloads, the overhead of each in bytes, the remaining data, and what that begins with: a message
over the limit, or something wrong."""
