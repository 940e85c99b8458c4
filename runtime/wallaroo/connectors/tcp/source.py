"""The sources' sockets: many connections, frames cut in bulk, and reading that stops in time.

A connection that sends an invalid frame, or ends in the middle of one, is closed and logged with
its peer, source and reason; its complete messages count, and other connections continue. All
connections read into one buffer, in turn, so that thousands of idle ones cost next to nothing; each
connection keeps its incomplete frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import resource
import socket
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from wallaroo.connectors.listening import BACKLOG, socket_of
from wallaroo.connectors.tcp.acknowledged import Open, Streams
from wallaroo.connectors.tcp.connection import FrameConnection
from wallaroo.connectors.tcp.drain import Drain
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.errors import reason_of
from wallaroo.gateway.connector import ConnectorContext, SourceConnector, SourceState
from wallaroo.gateway.journal.stream_positions import StreamName, StreamPosition
from wallaroo.gateway.limits import FrameProgress, Load
from wallaroo.observability.logs import Repeats

HANDSHAKE_S = 10.0
"""Seconds that a sender has to begin TLS."""
_READ_BYTES = 256 * 1024
"""Bytes taken from a socket at a time."""
_PAUSE_S = 1.0
"""Pause when no file descriptors are left for connections."""
_LOOKS_PER_IDLE_TIME = 4
"""How often connections are looked at while one may be idle."""
_RESERVED_FILES = 256
"""File descriptors left to journal, outbox, sinks and internal API; a quarter at most."""
_KEEPALIVE = {socket.TCP_KEEPIDLE: 120, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
"""A sender whose machine has vanished is detected after three minutes."""

SSLProtocol.max_size = 32 * 1024
"""Bytes of the buffer that asyncio gives each connection for as long as it is open: its own 256 KiB
would be 2.5 GiB for as many connections as may be."""

log = structlog.get_logger("wallaroo.gateway")


def most_connections() -> int:
    """Connections that leave enough of this process's file descriptors for everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return files - min(_RESERVED_FILES, files // 4)


class TCPListener(SourceConnector):
    """Listens for TCP sources and fills the journal; lives in one event loop.

    Args:
        context: What the gateway gives.
        sources: The sources by their indices.
    """

    def __init__(self, context: ConnectorContext, sources: Mapping[int, TCPSource]) -> None:
        self._tls, self._journal, self.limits = context.source_tls, context.journal, context.limits
        self._tables = context.tables
        self.load = Load(self.limits)
        self._repeats = Repeats()
        self._sources = sources
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._listeners: dict[int, socket.socket] = {}
        self.addresses: dict[int, tuple[str, int]] = {}
        """Addresses that are bound, by index of the source."""
        self._connections: set[Open] = set()
        self._opening: set[asyncio.Task[Any]] = set()
        """Tasks that open accepted connections."""
        self._paused = False
        self._idle_look: asyncio.TimerHandle | None = None
        self._most_open = most_connections()
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self.streams = Streams(self._journal)

    async def start(self) -> None:
        """See `SourceConnector.start`."""
        for index, source in self._sources.items():
            waits = bool(self._tables.awaited_by(index))
            listener = socket_of(source, "source", "--in", listens=not waits)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted ones have it
            for option, value in _KEEPALIVE.items():
                listener.setsockopt(socket.IPPROTO_TCP, option, value)
            self._listeners[index] = listener
            if waits:
                begin = functools.partial(self._in_loop, self._begin, index, source, listener)
                self._tables.call_when_read(index, begin)
            else:
                self._loop.add_reader(listener, self._accept, index, source, listener)
            if self._idle_look is None:
                self._look_for_idle()
            self.addresses[index] = listener.getsockname()[:2]

    def status(self, index: int) -> SourceState:
        """See `SourceConnector.status`."""
        host, port = self.addresses[index]
        return SourceState(f"{host}:{port}")

    @property
    def is_secret(self) -> bool:
        """Whether connections speak TLS."""
        return self._tls is not None

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    @property
    def paused(self) -> bool:
        """Whether no sender is read because the journal is full."""
        return self._paused

    def take(
        self, source: int, count: int, data: bytes, position: StreamPosition | None = None
    ) -> None:
        """Hand messages to the journal, and stop all reading if it has no more room."""
        if not self._journal.submit(source, count, data, position) and not self._paused:
            self._paused = True
            log.info("sources paused", reason="the journal is full", connections=self.connections)
            for connection in self._connections:
                connection.pause()

    def on_room(self) -> None:
        """See `SourceConnector.on_room`."""
        self._in_loop(self._resume)

    def on_accepted(self, positions: Mapping[StreamName, int]) -> None:
        """See `SourceConnector.on_accepted`."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self.streams.accepted, positions)
        else:
            self._in_loop(self.streams.accepted, positions)

    def time(self) -> float:
        """Now, by the loop's clock."""
        return self._loop.time()

    def opened(self, connection: Open) -> None:
        """Note a new connection."""
        self._connections.add(connection)
        if self._paused:
            connection.pause()

    def closed(self, connection: Open) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    async def stop(self) -> None:
        """Stop accepting: take what has reached this machine already, then close connections.

        Those that wait for acknowledgements stay open until `close`. See `SourceConnector.stop`.
        """
        for listener in self._listeners.values():
            self._loop.remove_reader(listener)
        for opening in self._opening:
            if self._tls is not None:  # it has sent nothing yet that could be taken
                opening.cancel()
        while self._opening:
            await asyncio.sleep(0)
        drain = Drain(self._loop.time)
        for index, listener in self._listeners.items():
            with contextlib.suppress(OSError):
                # connections that wait to be accepted may have delivered, too
                for _ in range(BACKLOG):
                    accepted, peer = listener.accept()
                    accepted.setblocking(False)
                    if self._tls is None:
                        connection = FrameConnection(self, index, self._sources[index], peer)
                        connection.take_over(accepted, drain)
                    else:
                        accepted.close()
            listener.close()
        self._listeners.clear()
        for open_one in list(self._connections):
            open_one.finish(drain)
        if drain.is_over:
            log.warning("senders cut off", reason="they had delivered more than a stop takes")
        await asyncio.sleep(0)  # lets the transports close

    async def close(self) -> None:
        """Close what is open still."""
        if self._idle_look is not None:
            self._idle_look.cancel()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

    def _in_loop(self, act: Callable[..., object], *arguments: Any) -> None:
        """Let the loop call *act*; for any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(act, *arguments)

    def _begin(self, index: int, source: TCPSource, listener: socket.socket) -> None:
        """Listen at last, unless stopped meanwhile."""
        if self._listeners.get(index) is not listener:
            return
        try:
            listener.listen(BACKLOG)
        except OSError as error:  # another process listens there now
            log.warning("source cannot listen", source=source.name, reason=reason_of(error))
            self._loop.call_later(_PAUSE_S, self._begin, index, source, listener)
        else:
            self._loop.add_reader(listener, self._accept, index, source, listener)

    def _look_for_idle(self) -> None:
        """Close connections that were silent for too long, and check again later."""
        limits = [limit for limit in (self.limits.idle_s, self.limits.frame_s) if limit]
        if not limits:
            return
        if not self._paused:  # a connection that is not read cannot show that it is not idle
            now = self._loop.time()
            for connection in list(self._connections):
                self._check_idle(connection, now)
        self._idle_look = self._loop.call_later(
            min(limits) / _LOOKS_PER_IDLE_TIME, self._look_for_idle
        )

    def _check_idle(self, connection: Open, now: float) -> None:
        idle_s, frame_s = self.limits.idle_s, self.limits.frame_s
        if frame_s and connection.is_in_frame and now - connection.progress.since > frame_s:
            connection.drop(
                f"the frame is incomplete {frame_s:g} s after it, or the last "
                f"{FrameProgress.PIECE // 1024} KiB of it, began"
            )
        elif idle_s and now - connection.heard_at > idle_s:
            connection.drop(f"no data came for {idle_s:g} s")

    def _accept(self, index: int, source: TCPSource, listener: socket.socket) -> None:
        """Take the connections that wait."""
        for _ in range(BACKLOG):
            if len(self._connections) + len(self._opening) >= self._most_open:
                self._let_wait(index, source, listener, "too few file descriptors are left")
                return
            try:
                accepted, peer = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # no more file descriptors: the others keep waiting
                self._let_wait(index, source, listener, reason_of(error))
                return
            accepted.setblocking(False)
            problem = self.load.admit(index, str(peer[0]))
            if problem is None:
                self._open(index, FrameConnection(self, index, source, peer), accepted)
            else:
                accepted.close()
                self._refused(index, str(peer[0]), problem, problem)

    def _let_wait(
        self, index: int, source: TCPSource, listener: socket.socket, reason: str
    ) -> None:
        """Leave connections to the kernel for a while."""
        if self._repeats.show((source.name, "files")):
            log.warning(
                "connections wait",
                source=source.name,
                reason=f"{reason}: raise the limit of open files (ulimit -n)",
                open=self.connections,
            )
        self._loop.remove_reader(listener)
        self._loop.call_later(_PAUSE_S, self._accept_again, index, source, listener)

    def _accept_again(self, index: int, source: TCPSource, listener: socket.socket) -> None:
        if self._listeners.get(index) is listener:
            self._loop.add_reader(listener, self._accept, index, source, listener)

    def _open(self, index: int, connection: FrameConnection, accepted: socket.socket) -> None:
        """Open *connection*, which was admitted; with TLS, if its sender begins that in time."""
        opening = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
            )
        )
        self._opening.add(opening)
        opening.add_done_callback(
            functools.partial(self._opened_or_not, index, connection, accepted)
        )

    def _opened_or_not(
        self,
        index: int,
        connection: FrameConnection,
        accepted: socket.socket,
        opening: asyncio.Task[Any],
    ) -> None:
        self._opening.discard(opening)
        error = None if opening.cancelled() else opening.exception()
        if connection.was_made:
            return
        accepted.close()
        self.load.dismiss(index, connection.host)
        if error is not None:
            reason = f"TLS did not begin: {getattr(error, 'reason', None) or error}"
            self._refused(index, connection.host, reason, "TLS")

    def _refused(self, index: int, host: str, reason: str, kind: str) -> None:
        name = self._sources[index].name
        if self._repeats.show((name, kind)):
            log.warning("connection refused", source=name, peer=host, reason=reason)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            log.info("sources resumed", connections=self.connections)
            for connection in self._connections:
                connection.heard_at = self._loop.time()
                connection.progress.begin(connection.heard_at)
                connection.resume()


open_sources = TCPListener
