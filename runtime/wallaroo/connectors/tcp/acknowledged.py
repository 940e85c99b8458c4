"""Connections that speak the acknowledged protocol: numbered messages, acknowledged once on disk.

What a stream has on disk is committed with its messages, in one transaction of the journal. So a
sender that reconnects, to this gateway or to its successor, learns where to resume, and what it
sends again is recognised and dropped.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from wallaroo.connectors.tcp.drain import Drain
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.errors import FrameError
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import Opener, StreamName, StreamPosition
from wallaroo.gateway.limits import FrameProgress, Load
from wallaroo.system.tls import subject_of
from wallaroo.wire.acknowledged import (
    BATCH_BYTES,
    PAYLOADS,
    VERSION,
    Ack,
    Frame,
    FrameCutter,
    Hello,
    Messages,
    Refusal,
    Welcome,
    check_stream,
    encode,
)
from wallaroo.wire.framing import Framing

WINDOW = 64 * 1024
"""Messages that a stream may have sent and not acknowledged: many commits' worth of small ones."""
_HEAD_BYTES = 16
"""More than a frame has besides its payloads."""
_READ_BYTES = 256 * 1024


@dataclass
class _Stream:
    """A stream that is open, or of which messages are on their way to the disk."""

    taken: int
    """Number of the last message that was handed to the journal."""
    accepted: int
    """Number of the last message that is on disk."""
    connection: AckedConnection | None = None
    """The connection that it is open on."""


class Streams:
    """The streams of all sources; lives in the event loop.

    Args:
        journal: Knows what is on disk.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._streams: dict[StreamName, _Stream] = {}

    def open(self, name: StreamName, opener: Opener, connection: AckedConnection) -> _Stream:
        """The stream called *name*, now open on *connection*.

        Raises:
            FrameError: It belongs to another sender, or there are too many.
        """
        last = self._journal.stream_positions.open(name, opener, self._streams.keys())
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream(last, last)
        elif stream.connection is not None:
            stream.connection.refuse(f"the stream {name.stream!r} was opened on a new connection")
        stream.connection = connection
        return stream

    def closed(self, name: StreamName, connection: AckedConnection) -> None:
        """Note the end of *connection*, if the stream is still open on it."""
        stream = self._streams.get(name)
        if stream is not None and stream.connection is connection:
            stream.connection = None
            self._let_go(name, stream)
            if stream.taken == 0:  # nothing was ever sent: nothing is remembered
                self._journal.stream_positions.drop(name)

    def accepted(self, positions: Mapping[StreamName, int]) -> None:
        """Acknowledge what the journal has on disk now."""
        for name, last in positions.items():
            stream = self._streams.get(name)
            if stream is None:  # replays of dead letters
                continue
            stream.accepted = last
            if stream.connection is not None:
                stream.connection.acknowledge()
            self._let_go(name, stream)

    def _let_go(self, name: StreamName, stream: _Stream) -> None:
        """Leave a closed stream to the journal, once it has all of it."""
        if stream.connection is None and stream.accepted >= stream.taken:
            del self._streams[name]


class Open(Protocol):
    """A connection of a sender, of either protocol."""

    heard_at: float
    """When data last arrived, by the loop's clock."""
    progress: FrameProgress
    """Since when it has been sending its frame."""

    @property
    def is_in_frame(self) -> bool:
        """Whether the rest of something that has begun is yet to come."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Read on."""

    def finish(self, drain: Drain) -> None:
        """Take what the kernel has received of it."""

    def refuse(self, reason: str) -> None:
        """End it, and log why."""

    def drop(self, reason: str) -> None:
        """End it, and log why; its sender may reconnect."""

    def close(self) -> None:
        """Close it."""


class Host(Protocol):
    """What a connection needs of the listener."""

    streams: Streams
    load: Load

    @property
    def is_secret(self) -> bool:
        """Whether connections speak TLS."""

    def time(self) -> float:
        """Now, by the loop's clock."""

    def take(
        self, source: int, count: int, data: bytes, position: StreamPosition | None = None
    ) -> None:
        """Hand messages to the journal."""

    def closed(self, connection: Open) -> None:
        """Forget a connection."""


class AckedConnection(asyncio.Protocol):
    """One sender, after the preamble.

    Args:
        host: The listener.
        index: Index of the source.
        source: The source.
        transport: The connection.
        log: Called with the reason and the number of messages when the connection is refused.
        peer: Address of the sender, under which the connection is counted.
    """

    def __init__(
        self,
        host: Host,
        index: int,
        source: TCPSource,
        transport: asyncio.Transport,
        log: Callable[[str, int], None],
        peer: str,
    ) -> None:
        self._host = host
        self._peer = peer
        self._held = 0
        self.heard_at = host.time()
        """When data last arrived, by the loop's clock."""
        self.progress = FrameProgress(self.heard_at)
        """Since when it has been sending its frame."""
        self._index = index
        self._source = source
        self._transport = transport
        self._log = log
        max_frame = source.framing.max_frame
        self._payloads = Framing(4, PAYLOADS.length_fmt, max_frame)
        self._as_they_are = (source.framing.header_length, source.framing.length_fmt) == (4, ">I")
        self._cutter = FrameCutter(max(max_frame, BATCH_BYTES) + _HEAD_BYTES)
        self._name: StreamName | None = None
        self._stream: _Stream | None = None
        self._messages = 0
        self._limit = 0
        self._paused = False
        self._listens = True
        """Whether the sender reads what is written to it."""
        self._over = False

    @property
    def is_in_frame(self) -> bool:
        """Whether the rest of a frame, or the frame that opens the stream, is yet to come."""
        return self._stream is None or bool(self._held)

    def data_received(self, data: bytes) -> None:
        """Take the frames that *data* completes; for asyncio."""
        if self._over:
            return
        self.heard_at = self._host.time()
        restart = not self.is_in_frame
        try:
            for frame in self._cutter.feed(data):
                self._take(frame)
                restart = True
        except FrameError as error:
            self.refuse(str(error))
        self.progress.note(self.heard_at, len(data), restart=restart)
        before, self._held = self._held, self._cutter.held
        problem = self._host.load.hold(self._peer, before, self._held)
        if problem is not None:
            self.drop(problem)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Let go of the stream; for asyncio."""
        self._over = True
        self._host.closed(self)
        self._host.load.hold(self._peer, self._held, 0)
        self._host.load.dismiss(self._index, self._peer)
        if self._name is not None:
            self._host.streams.closed(self._name, self)

    def pause(self) -> None:
        """Stop reading, and give no more credit."""
        self._paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self.acknowledge()

    def acknowledge(self) -> None:
        """Report to the sender what is on disk, and how far it may send."""
        if self._stream is not None and not self._over and self._listens:
            self._transport.write(encode(Ack(self._stream.accepted, self._grant(self._stream))))

    def pause_writing(self) -> None:
        """Write nothing while the sender reads nothing, or it would pile up; for asyncio."""
        self._listens = False

    def resume_writing(self) -> None:
        """Report the current state; for asyncio."""
        self._listens = True
        self.acknowledge()

    def refuse(self, reason: str) -> None:
        """Report to the sender why the connection ends, and end it."""
        if not self._over:
            self._over = True
            self._log(reason, self._messages)
            self._transport.write(encode(Refusal(reason)))
            self._transport.close()

    def drop(self, reason: str) -> None:
        """End the connection, and log why; its sender may reconnect."""
        if not self._over:
            self._over = True
            self._log(reason, self._messages)
            self._transport.abort()

    def finish(self, drain: Drain) -> None:
        """Take what the kernel has received; the connection stays open for acknowledgements."""
        if self._transport.is_closing():
            return
        self._transport.pause_reading()
        if not self._host.is_secret:  # else these bytes are encrypted; they are sent again later
            file = self._transport.get_extra_info("socket").fileno()
            room = memoryview(bytearray(_READ_BYTES))
            for count in drain.read(file, lambda: room):
                self.data_received(bytes(room[:count]))
                if self._over:
                    return

    def close(self) -> None:
        """Close the connection after what was written."""
        self._over = True
        self._transport.close()

    def _take(self, frame: Frame) -> None:
        match frame:
            case Hello() if self._stream is None:
                self._open(frame)
            case Messages() if self._stream is not None:
                self._accept(frame, self._stream)
            case _:
                msg = f"a {type(frame).__name__} frame out of place"
                raise FrameError(msg)

    def _open(self, hello: Hello) -> None:
        if hello.version < 1:
            msg = f"version {hello.version} of the protocol; this gateway speaks 1 to {VERSION}"
            raise FrameError(msg)
        if (problem := check_stream(hello.stream)) is not None:
            raise FrameError(problem)
        name = StreamName(self._index, hello.stream)
        opener = Opener(subject_of(self._transport.get_extra_info("peercert")), self._peer)
        self._stream = self._host.streams.open(name, opener, self)
        self._name = name
        version, grant = min(hello.version, VERSION), self._grant(self._stream)
        self._transport.write(encode(Welcome(version, self._stream.accepted, grant)))

    def _grant(self, stream: _Stream) -> int:
        if not self._paused:
            self._limit = stream.accepted + WINDOW
        return max(self._limit, stream.accepted)

    def _accept(self, messages: Messages, stream: _Stream) -> None:
        data = messages.data
        scan, problem = self._payloads.scan_until_error(data)
        if problem is not None or scan.end != len(data) or not scan.frames:
            raise FrameError(problem or "messages that do not end with their frame")
        last = messages.first + scan.frames - 1
        known = stream.taken + 1 - messages.first
        if not messages.first or known < 0:
            msg = f"message {messages.first}; expected {stream.taken + 1}"
            raise FrameError(msg)
        if last > self._limit:
            msg = f"message {last}, and the credit ends with {self._limit}"
            raise FrameError(msg)
        if known >= scan.frames:
            return  # sent again
        if known or not self._as_they_are:
            payloads = self._payloads.split(data)[known:]
            try:
                data = self._source.framing.frame_all(payloads)
            except struct.error as error:
                msg = f"a message that the source's frames do not hold: {error}"
                raise FrameError(msg) from error
        count = scan.frames - known
        stream.taken = last
        self._messages += count
        assert self._name is not None
        self._host.take(self._index, count, data, (self._name, last))
