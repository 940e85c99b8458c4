"""A connection of a sender of plain frames, cut in bulk.

It keeps what is left of an incomplete frame; whole frames go to the listener, through the buffer
that all connections read into in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any, Protocol, cast

import structlog

from wallaroo.connectors.tcp import misdirected
from wallaroo.connectors.tcp.acknowledged import AckedConnection, Host, Open
from wallaroo.connectors.tcp.drain import Drain
from wallaroo.connectors.tcp.misdirected import Misdirected
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.gateway.limits import FrameProgress
from wallaroo.system.read_pause import pause_reading
from wallaroo.wire.acknowledged import PREAMBLE
from wallaroo.wire.unframed import Delimited, StreamFormat

_GROWTH = 4
"""How many times larger the room for a large frame becomes when it is full: a sender that
announces a large frame gets room as it sends it."""

_SLOW = 4096
"""Bytes of a frame after which it gets room of its own if it comes in small pieces: in the shared
buffer, the bytes that are there are copied with each piece."""

log = structlog.get_logger("wallaroo.gateway")


class PlainHost(Host, Protocol):
    """What a connection needs of the listener."""

    buffer: memoryview
    """What connections read into, in turn."""

    def opened(self, connection: Open) -> None:
        """Note a new connection."""


class FrameConnection(asyncio.BufferedProtocol):
    """One sender.

    Args:
        listener: Takes its messages.
        index: Index of the source.
        source: The source.
        peer: Address of the sender.
    """

    def __init__(self, listener: PlainHost, index: int, source: TCPSource, peer: Any) -> None:
        self._listener = listener
        self._index = index
        self._source = source
        unframed = source.unframed
        self._cutter: StreamFormat = source.framing if unframed is None else unframed
        self._delimited = unframed if isinstance(unframed, Delimited) else None
        self._transport: asyncio.Transport | None = None
        self._peer = f"{peer[0]}:{peer[1]}"
        self.host = str(peer[0])
        """Address of the sender."""
        self._messages = 0
        self._rest = b""
        """Start of a frame that is not complete, while it is in the shared buffer."""
        self._large: bytearray | None = None
        """Room for a frame that is larger than the shared buffer or trickles, while it comes."""
        self._needs = 0
        """Bytes of that frame, or the most that it may have if only its end shows how many."""
        self._filled = 0
        """Bytes of `_large` that are there."""
        self._begun = False
        """Whether it is known to send plain frames."""
        self._logged = False
        self._held = 0
        """Bytes of an incomplete frame that the listener knows of."""
        self.heard_at = listener.time()
        """When data last arrived, by the loop's clock."""
        self.progress = FrameProgress(self.heard_at)
        """Since when it has been sending its frame."""

    @property
    def was_made(self) -> bool:
        """Whether it has been open."""
        return self._transport is not None

    @property
    def is_in_frame(self) -> bool:
        """Whether the rest of a frame is yet to come."""
        return bool(self._left)

    @property
    def _left(self) -> int:
        """Bytes after the last whole frame."""
        return len(self._rest) if self._large is None else self._filled

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; for asyncio, as the next four."""
        self._transport = cast("asyncio.Transport", transport)
        self._listener.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where the next bytes go."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        # asyncio fills this buffer and calls buffer_updated before any other connection's turn
        rest = len(self._rest)
        self._listener.buffer[:rest] = self._rest
        return self._listener.buffer[rest:]

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that are there now."""
        self.heard_at = self._listener.time()
        was_in_frame, messages = self.is_in_frame, self._messages
        self._take(nbytes)
        restart = not was_in_frame or messages != self._messages
        self.progress.note(self.heard_at, nbytes, restart=restart)

    def _take(self, nbytes: int) -> None:
        if self._large is None:
            self._cut(bytes(self._listener.buffer[: len(self._rest) + nbytes]))
            return
        before = self._filled
        self._filled += nbytes
        ends = self._delimited and self._delimited.ends_in(self._large, before, self._filled)
        if ends or self._filled == self._needs:
            data, self._large = bytes(self._large[: self._filled]), None
            self._cut(data)
        elif self._filled == len(self._large):
            self._grow(self._large)

    def eof_received(self) -> bool:
        """Take the last message if the end of the connection ends it; let the connection end."""
        if self._source.unframed is not None and self._rest and not self._begun:
            self._begun, data, self._rest = True, self._rest, b""
            self._cut(data)  # it only looked like the other protocol
        if self._delimited is not None and self._left and not self._logged:
            rest = self._rest if self._large is None else bytes(self._large[: self._filled])
            if (last := self._delimited.last(rest)) is not None:
                self._rest, self._large = b"", None
                self._messages += 1
                self._listener.take(self._index, 1, self._source.framing.frame(last))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Log what is missing, and release everything."""
        self._listener.closed(self)
        self._hold(0)
        if self.was_made:
            self._listener.load.dismiss(self._index, self.host)
        if self._left and not self._logged:
            after = f"{self._left} bytes after the last whole one"
            self._log(f"the connection ended in mid-frame, {after}")
        elif exc is not None and not self._logged:
            self._log(str(exc))

    def pause(self) -> None:
        """Stop reading."""
        if self._transport is not None and not self._transport.is_closing():
            pause_reading(self._transport)

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def finish(self, drain: Drain) -> None:
        """Take what the kernel has of this connection, and close it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            if not self._listener.is_secret:
                self._take_rest(self._transport.get_extra_info("socket").fileno(), drain)
            self._transport.close()

    def take_over(self, accepted: socket.socket, drain: Drain) -> None:
        """Take what the kernel has of a connection that asyncio never saw, and close it."""
        with accepted:
            self._take_rest(accepted.fileno(), drain)
        self.connection_lost(None)

    def _take_rest(self, file: int, drain: Drain) -> None:
        for count in drain.read(file, lambda: self.get_buffer(-1)):
            self.buffer_updated(count)
            if self._logged:
                return
        with contextlib.suppress(OSError):  # its sender has not ended it
            if not os.read(file, 1):
                self.eof_received()

    def _cut(self, data: bytes) -> None:
        if not self._begun:
            if PREAMBLE.startswith(data[: len(PREAMBLE)]):
                self._rest = data
                if len(data) >= len(PREAMBLE):
                    self._become_acked(data[len(PREAMBLE) :])
                return
            self._begun = True
            if self._source.unframed is None:
                misuse = misdirected.http_request(data, self._source.framing)
                if misuse is not None:
                    self._turn_away(misuse)
                    return
        scan, problem = self._cutter.scan_until_error(data)
        if scan.frames:
            self._messages += scan.frames
            whole = data if scan.end == len(data) else data[: scan.end]
            if self._source.unframed is not None:
                whole = self._source.framing.frame_all(self._cutter.split(whole))
            self._listener.take(self._index, scan.frames, whole)
        was, self._rest = len(self._rest), data[scan.end :]
        rest = len(self._rest)
        trickles = rest >= _SLOW and not scan.frames and _GROWTH * (rest - was) < rest
        if problem is None and (trickles or scan.needs > len(self._listener.buffer)):
            self._needs = self._delimited.most if self._delimited else scan.needs
            self._filled = rest
            self._grow(self._rest)
            self._rest = b""
            return
        if problem is not None and not self._messages and self._source.unframed is None:
            problem = misdirected.text(data, self._source.framing) or problem
        problem = problem or self._hold(len(self._rest))
        if problem is not None:
            self._rest = b""
            self.refuse(problem)

    def _grow(self, there: bytes | bytearray) -> None:
        """Make more room for a large frame, the beginning of which is *there*."""
        large = not self._delimited and self._needs > len(self._listener.buffer)
        least = len(self._listener.buffer) if large else 0
        size = min(self._needs, max(_GROWTH * len(there), least))
        if (problem := self._hold(size)) is not None:
            self.refuse(problem)
            return
        self._large = bytearray(size)
        self._large[: len(there)] = there

    def refuse(self, reason: str) -> None:
        """End the connection, and log why."""
        self._log(reason)
        if self._transport is not None:
            self._transport.abort()

    drop = refuse
    """The same: nothing is written to senders of plain frames."""

    def _turn_away(self, misuse: Misdirected) -> None:
        """Answer a client that speaks something else, and end the connection."""
        self._log(misuse.reason)
        if self._transport is not None:
            self._transport.pause_reading()
            self._transport.write(misuse.answer)
            self._transport.close()

    def _hold(self, size: int) -> str | None:
        """Hold *size* bytes from now on; returns why that is not allowed, if it is not."""
        before, self._held = self._held, size
        return self._listener.load.hold(self.host, before, size)

    def _become_acked(self, data: bytes) -> None:
        """Hand this connection over to the other protocol, with *data*, which has arrived."""
        self._rest = b""
        self._hold(0)
        if self._transport is None:
            return  # at a stop, before it was opened: its sender will reconnect
        acked = AckedConnection(
            self._listener, self._index, self._source, self._transport, self._log_end, self.host
        )
        self._transport.set_protocol(acked)
        self._listener.closed(self)
        self._listener.opened(acked)
        acked.data_received(data)

    def _log(self, reason: str) -> None:
        self._logged = True
        self._log_end(reason, self._messages)

    def _log_end(self, reason: str, messages: int) -> None:
        log.warning(
            "connection closed",
            source=self._source.name,
            peer=self._peer,
            reason=reason,
            messages=messages,
        )
