"""Frames over a socket: the length of a frame, a big-endian integer of 32 bits, and its content."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Protocol

_LENGTH = struct.Struct(">I")
_PIECE_BYTES = 256 * 1024


class Stream(Protocol):
    """What a stream socket does, with or without TLS."""

    def sendall(self, data: bytes, /) -> None:
        """Send *data*."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Up to *size* bytes; none at the end of the stream. `MSG_DONTWAIT` is the one flag."""

    def settimeout(self, seconds: float | None, /) -> None:
        """Limit the time of each call."""

    def fileno(self) -> int:
        """The file descriptor."""

    def shutdown(self, how: int, /) -> None:
        """Shut the connection down."""

    def close(self) -> None:
        """Close the connection."""


class FrameSocket:
    """A stream socket that carries frames; any thread may send, and one of them receives.

    Args:
        connection: The socket.
    """

    def __init__(self, connection: Stream) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._held = bytearray()
        self._start = 0

    def send(self, *parts: bytes) -> None:
        """Send a frame of *parts*.

        Raises:
            OSError: The other side is gone.
        """
        frame = b"".join((_LENGTH.pack(sum(map(len, parts))), *parts))
        with self._sending:
            self._connection.sendall(frame)

    def is_ready(self) -> bool:
        """Whether `send` would not wait for the other side, if the frame is small."""
        descriptor = self._connection.fileno()
        if descriptor < 0:  # closed: it fails at once
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def receive(self) -> bytes | None:
        """The next frame; None at the end of the stream.

        Raises:
            OSError: The connection is broken.
        """
        while (frame := self._cut()) is None:
            piece = self._connection.recv(_PIECE_BYTES)
            if not piece:
                return None
            self._held += piece
        return frame

    def arrived(self) -> Iterator[bytes]:
        """The frames that have come; waits for no other.

        Raises:
            EOFError: The stream has ended.
            OSError: The connection is broken.
        """
        while True:
            while (frame := self._cut()) is not None:
                yield frame
            try:
                piece = self._connection.recv(_PIECE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not piece:
                raise EOFError
            self._held += piece

    def has_frame(self) -> bool:
        """Whether `receive` has a frame without looking for one."""
        return self._end() is not None

    def fileno(self) -> int:
        """The file descriptor."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close the connection, even if another thread is waiting for a frame."""
        with contextlib.suppress(OSError):  # the other side has closed it
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _cut(self) -> bytes | None:
        if (end := self._end()) is not None:
            frame = bytes(memoryview(self._held)[self._start + _LENGTH.size : end])
            self._start = end
            return frame
        if self._start:
            del self._held[: self._start]
            self._start = 0
        return None

    def _end(self) -> int | None:
        """Where the next frame ends; None if a part of it has not come."""
        content = self._start + _LENGTH.size
        if len(self._held) < content:
            return None
        end: int = content + _LENGTH.unpack_from(self._held, self._start)[0]
        return end if len(self._held) >= end else None
