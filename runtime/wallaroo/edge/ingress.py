"""The sources' sockets: many connections, frames cut in bulk, and reading that stops in time.

A connection that sends what is no frame, or ends in the middle of one, is closed and logged with
its peer, source and reason; its complete messages count, and nobody else notices. All connections
read into one buffer, in turn, so that thousands of idle ones cost next to nothing; what is left of
an incomplete frame is kept by its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import structlog

from wallaroo.edge.acked import AckedConnection, Streams
from wallaroo.edge.journal import Journal, Mark, StreamName
from wallaroo.edge.limits import SourceLimits
from wallaroo.errors import RuntimeFailure
from wallaroo.logs import Repeats
from wallaroo.model.acked import PREAMBLE
from wallaroo.model.application import Source, TCPSource

_HANDSHAKE_S = 10.0
"""Seconds that a sender has for the beginning of TLS."""
_READ_BYTES = 256 * 1024
"""Bytes taken from a socket at a time."""
_BACKLOG = 1024
"""Connections that may wait to be accepted."""
_LOOKS_PER_IDLE_TIME = 4
"""How often connections are looked at while one may be idle."""

log = structlog.get_logger("wallaroo.gateway")


class Ingress:
    """Listens for every source of an application and fills the journal.

    Lives in one event loop; `resume` may be called from any thread.

    Args:
        sources: All sources, in the order of their indices.
        journal: Takes the messages.
        limits: What senders may cost.
        tls: Makes connections secret, and senders show who they are; None for plain TCP.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        journal: Journal,
        limits: SourceLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.limits = limits or SourceLimits()
        self._open_connections: Counter[tuple[int, str]] = Counter()
        """Connections by source and address of the sender."""
        self._held_bytes = 0
        self._repeats = Repeats()
        self._sources = sources
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._listeners: list[tuple[asyncio.Server, socket.socket, Callable[[], _Connection]]] = []
        self._connections: set[_Connection | AckedConnection] = set()
        self._opening: set[_Connection] = set()
        """Accepted by asyncio, and not open yet."""
        self._paused = False
        self._idle_look: asyncio.TimerHandle | None = None
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self.streams = Streams(journal)

    async def listen(self) -> dict[int, tuple[str, int]]:
        """Bind the address of every source that has one.

        Returns:
            The bound addresses, by index of the source.

        Raises:
            RuntimeFailure: An address cannot be bound; the message names it.
        """
        bound: dict[int, tuple[str, int]] = {}
        for index, source in enumerate(self._sources):
            if not isinstance(source, TCPSource):
                continue
            family = socket.AF_INET6 if ":" in source.host else socket.AF_INET
            try:
                listener = socket.create_server(
                    (source.host, source.port), family=family, backlog=_BACKLOG
                )
            except OSError as error:
                reason = error.strerror or str(error)
                msg = (
                    f"source {source.name!r} cannot listen on {source.host}:{source.port}: "
                    f"{reason}; choose another address with --in, or stop who uses it"
                )
                raise RuntimeFailure(msg) from error
            listener.setblocking(False)
            make = functools.partial(_Connection, self, index, source)
            opening = functools.partial(self._open, make)
            server = await self._loop.create_server(
                opening,
                sock=listener,
                ssl=self.tls,
                ssl_handshake_timeout=None if self.tls is None else _HANDSHAKE_S,
            )
            self._listeners.append((server, listener, make))
            if self.limits.idle_s and self._idle_look is None:
                self._look_for_idle()
            bound[index] = listener.getsockname()[:2]
        return bound

    def admit(self, source: int, host: str) -> str | None:
        """Count a new connection to *source*; why it cannot be taken, if it cannot."""
        limits = self.limits
        problem = None
        if self._open_connections[source, host] >= limits.connections_per_peer:
            problem = f"{limits.connections_per_peer} connections from {host} are open"
        elif self._open_connections[source, ""] >= limits.connections:
            problem = f"{limits.connections} connections are open"
        if problem is not None:
            if self._repeats.show((source, problem)):
                name = self._sources[source].name
                log.warning("connection refused", source=name, peer=host, reason=problem)
            return problem
        self._open_connections.update([(source, host), (source, "")])
        return None

    def dismiss(self, source: int, host: str) -> None:
        """Count a connection that was admitted as ended."""
        self._open_connections.subtract([(source, host), (source, "")])
        if not self._open_connections[source, host]:
            del self._open_connections[source, host]

    def hold(self, size: int) -> bool:
        """Count *size* bytes more of incomplete frames, or fewer; tells whether they may be."""
        self._held_bytes += size
        return size <= 0 or self._held_bytes <= self.limits.held_bytes

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    def take(self, source: int, count: int, data: bytes, mark: Mark | None = None) -> None:
        """Hand messages to the journal, and stop all reading if it has no more room."""
        if not self._journal.submit(source, count, data, mark) and not self._paused:
            self._paused = True
            log.info("sources paused", reason="the journal is full", connections=self.connections)
            for connection in self._connections:
                connection.pause()

    def resume(self) -> None:
        """Read on: the journal has room again."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._resume)

    def accepted(self, marks: Mapping[StreamName, int]) -> None:
        """Acknowledge what the journal has on disk now; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.streams.accepted, marks)

    def time(self) -> float:
        """Now, by the loop's clock."""
        return self._loop.time()

    def opened(self, connection: _Connection | AckedConnection) -> None:
        """Note a new connection."""
        if isinstance(connection, _Connection):
            self._opening.discard(connection)
        self._connections.add(connection)
        if self._paused:
            connection.pause()

    def closed(self, connection: _Connection | AckedConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    async def stop(self) -> None:
        """Stop accepting: take what has reached this machine already, then close connections.

        Those that wait for acknowledgements stay open until `close`.
        """
        for _, listener, _ in self._listeners:
            self._loop.remove_reader(listener)  # asyncio accepts no more,
        await asyncio.sleep(0)
        while self._opening:  # and what it has accepted is opened in the loop's next turns
            await asyncio.sleep(0)
        for server, listener, make in self._listeners:
            with contextlib.suppress(OSError):
                while True:  # connections that wait to be accepted may have delivered, too
                    accepted, peer = listener.accept()
                    if self.tls is None:
                        make().take_over(accepted, peer)
                    else:
                        accepted.close()
            server.close()
        self._listeners.clear()
        for connection in list(self._connections):
            connection.finish()
        await asyncio.sleep(0)  # lets the transports close

    async def close(self) -> None:
        """Close what is open still."""
        if self._idle_look is not None:
            self._idle_look.cancel()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

    def _look_for_idle(self) -> None:
        """Close connections that were idle for too long, and look again later."""
        if not self._paused:  # who is not read cannot show that he is not idle
            oldest = self._loop.time() - self.limits.idle_s
            for connection in list(self._connections):
                if connection.heard_at < oldest:
                    connection.refuse(f"nothing came for {self.limits.idle_s:g} s")
        self._idle_look = self._loop.call_later(
            self.limits.idle_s / _LOOKS_PER_IDLE_TIME, self._look_for_idle
        )

    def _open(self, make: Callable[[], _Connection]) -> _Connection:
        connection = make()
        if self.tls is None:  # with TLS, some never open
            self._opening.add(connection)
        return connection

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            log.info("sources resumed", connections=self.connections)
            for connection in self._connections:
                connection.heard_at = self._loop.time()
                connection.resume()


class _Connection(asyncio.BufferedProtocol):
    """One sender."""

    def __init__(self, ingress: Ingress, index: int, source: TCPSource) -> None:
        self._ingress = ingress
        self._index = index
        self._source = source
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._messages = 0
        self._rest = b""
        """Start of a frame that is not complete, while it is smaller than the shared buffer."""
        self._large: bytearray | None = None
        """A frame that is larger than the shared buffer, while it comes in."""
        self._filled = 0
        """Bytes of `_large` that are there."""
        self._begun = False
        """Whether it is known to send plain frames."""
        self._logged = False
        self._host: str | None = None
        """Address of the sender, where the connection is counted."""
        self._held = 0
        """Bytes that are counted as held for a large frame."""
        self.heard_at = ingress.time()
        """When something last came, by the loop's clock."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._peer, host = _address(peer), str(peer[0] if peer else "?")
        if self._ingress.admit(self._index, host) is None:
            self._host = host
            self._ingress.opened(self)
        else:
            self._logged = True
            self._ingress.opened(self)
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        # asyncio fills this buffer and calls buffer_updated before any other connection's turn
        rest = len(self._rest)
        self._ingress.buffer[:rest] = self._rest
        return self._ingress.buffer[rest:]

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = self._ingress.time()
        if self._large is not None:
            self._filled += nbytes
            if self._filled < len(self._large):
                return
            data, self._large, self._filled = bytes(self._large), None, 0
            self._hold(0)
        else:
            data = bytes(self._ingress.buffer[: len(self._rest) + nbytes])
        self._cut(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ingress.closed(self)
        self._hold(0)
        if self._host is not None:
            self._ingress.dismiss(self._index, self._host)
        left = self._filled if self._large is not None else len(self._rest)
        if left and not self._logged:
            self._log(f"the connection ended in mid-frame, {left} bytes after the last whole one")
        elif exc is not None and not self._logged:
            self._log(str(exc))

    def pause(self) -> None:
        """Stop reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Take what the kernel has of this connection, and close it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            if self._ingress.tls is None:
                self._drain(self._transport.get_extra_info("socket").fileno())
            self._transport.close()

    def take_over(self, accepted: socket.socket, peer: Any) -> None:
        """Take what the kernel has of a connection that asyncio never saw, and close it."""
        self._peer = _address(peer)
        with accepted:
            accepted.setblocking(False)
            self._drain(accepted.fileno())
        self.connection_lost(None)

    def _drain(self, file: int) -> None:
        with contextlib.suppress(OSError):
            while not self._logged and (count := os.readv(file, [self.get_buffer(-1)])):
                self.buffer_updated(count)

    def _cut(self, data: bytes) -> None:
        if not self._begun:
            if PREAMBLE.startswith(data[: len(PREAMBLE)]):
                self._rest = data
                if len(data) >= len(PREAMBLE):
                    self._become_acked(data[len(PREAMBLE) :])
                return
            self._begun = True
        scan, problem = self._source.framing.scan_until_error(data)
        if scan.frames:
            self._messages += scan.frames
            whole = data if scan.end == len(data) else data[: scan.end]
            self._ingress.take(self._index, scan.frames, whole)
        self._rest = data[scan.end :]
        large = scan.needs > len(self._ingress.buffer)
        if problem is None and large and not self._hold(scan.needs):
            problem = f"senders hold {self._ingress.limits.held_bytes} bytes of incomplete frames"
        if problem is not None:
            self._rest = b""
            self.refuse(problem)
        elif large:
            self._large = bytearray(scan.needs)
            self._filled = len(self._rest)
            self._large[: self._filled] = self._rest
            self._rest = b""

    def refuse(self, reason: str) -> None:
        """End the connection, and say why in the log."""
        self._log(reason)
        if self._transport is not None:
            self._transport.abort()

    def _hold(self, size: int) -> bool:
        """Hold *size* bytes from now on; tells whether they may be."""
        change, self._held = size - self._held, size
        return self._ingress.hold(change)

    def _become_acked(self, data: bytes) -> None:
        """Let another protocol go on with this connection, and with *data*, which has come."""
        self._rest = b""
        if self._transport is None:
            return  # at a stop, before it was opened: its sender finds that out, and comes again
        acked = AckedConnection(
            self._ingress, self._index, self._source, self._transport, self._log_end, self._host
        )
        self._transport.set_protocol(acked)
        self._ingress.closed(self)
        self._ingress.opened(acked)
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


def _address(peer: Any) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else str(peer)
