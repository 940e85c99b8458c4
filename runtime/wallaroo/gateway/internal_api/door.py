"""What stands before the port of the internal API, and bounds what callers can cost the gateway.

Flight hands a call to its authenticator only when it has all of the call's argument in memory,
however large it is, and accepts any number of connections. So where there is a port, Flight listens
at a Unix socket in a directory that only this user can enter, and connections come through here,
which is also where TLS ends. Until a call on a connection has been accepted, only so many bytes
pass, for only so long, on only so many connections. After that, the bytes between two accepted
calls are bounded, for each connection and for all together, and so is the number of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import cast

import structlog

from wallaroo.observability.logs import Repeats
from wallaroo.system.binding import listening_socket
from wallaroo.system.reading import pause_reading
from wallaroo.system.strangers import Strangers

log = structlog.get_logger("wallaroo.gateway")

STRANGER_BYTES = 64 * 1024
"""Bytes taken of a connection before a call on it is accepted: TLS, headers, and a small call."""
STRANGER_S = 10.0
"""Time until a call on a connection is to be accepted."""
MOST_STRANGERS = 64
"""Connections on which no call has been accepted yet."""
CALL_BYTES = 256 * 1024**2
"""Bytes of a known connection from one accepted call to the next: the largest call."""
SUM_BYTES = 512 * 1024**2
"""The same for all connections together; if there are more, the one with the most is ended."""
MOST_KNOWN = 1_000
"""Connections on which a call was accepted."""
_BACKLOG = 128
_READ_BYTES = 256 * 1024


class Door:
    """Passes connections on to a port on the loopback address.

    Args:
        host: Where to listen.
        port: The port; 0 for one that the system chooses.
        inner: The Unix socket at which Flight listens, in a directory of its own.
        stranger_s: Time until a call is to be accepted.
        context: Certificate and key, for TLS.
        call_bytes: Bytes from one accepted call to the next, of a connection.
        sum_bytes: The same, of all connections.
        most_known: Connections on which a call was accepted.

    Raises:
        OSError: The address cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        inner: Path,
        stranger_s: float = STRANGER_S,
        context: ssl.SSLContext | None = None,
        *,
        call_bytes: int = CALL_BYTES,
        sum_bytes: int = SUM_BYTES,
        most_known: int = MOST_KNOWN,
    ) -> None:
        listener = listening_socket(host, port, _BACKLOG)
        self.port = int(listener.getsockname()[1])
        """The port that is bound."""
        self._inner, self._stranger_s, self._context = inner, stranger_s, context
        self._call_bytes, self._sum_bytes, self._most = call_bytes, sum_bytes, most_known
        self._waiting = 0
        """Bytes of all connections since their last accepted calls."""
        self._connected = 0
        """Connections there have been."""
        self.strangers = Strangers(MOST_STRANGERS)
        self._repeats = Repeats()
        self._known: dict[str, _Outside] = {}
        """Connections by what Flight calls their peers."""
        self._open: set[_Outside] = set()
        self.buffer = memoryview(bytearray(_READ_BYTES))
        """What connections read into, in turn."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="door", daemon=True)
        self._thread.start()  # the caller may be in an event loop of its own
        opened = self._loop.create_server(lambda: _Outside(self), sock=listener)
        self._server = asyncio.run_coroutine_threadsafe(opened, self._loop).result()

    def trust(self, peer: str) -> None:
        """Note that a call of *peer*, as Flight calls it, was accepted."""
        connection = self._known.get(peer)
        if connection is not None:
            with contextlib.suppress(RuntimeError):  # the door is closed
                self._loop.call_soon_threadsafe(connection.trust)

    def host_of(self, peer: str) -> str:
        """Address of *peer*, as Flight calls it; empty if its connection has ended."""
        connection = self._known.get(peer)
        return "" if connection is None else connection.host

    def close(self) -> None:
        """Accept nothing more, and close all connections."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def connect(self, outside: _Outside) -> None:
        """Connect *outside* to the port within."""
        self._connected += 1
        name = self._inner.with_name(str(self._connected))
        within = socket.socket(socket.AF_UNIX)
        try:
            within.setblocking(False)
            within.bind(str(name))  # Flight calls the peer so
            try:
                await self._loop.sock_connect(within, str(self._inner))
            finally:
                name.unlink()
            _, inside = await self._loop.create_unix_connection(
                lambda: _Inside(outside), sock=within
            )
        except BaseException as error:
            within.close()
            outside.end()
            if isinstance(error, OSError):
                return
            raise
        peer = f"unix:{name}"
        self._known[peer] = outside
        outside.join(inside, peer)
        with contextlib.suppress(OSError):  # which ends the connection
            if self._context is not None:
                await outside.begin_tls(self._loop, self._context, self._stranger_s)
            outside.begin()

    def opened(self, outside: _Outside) -> asyncio.TimerHandle:
        """Note a connection, and end it when its time is up."""
        self._open.add(outside)
        return self._loop.call_later(self._stranger_s, outside.end)

    def admits(self) -> bool:
        """Whether there may be another known connection."""
        if sum(one.trusted for one in self._open) < self._most:
            return True
        if self._repeats.show("connections"):
            log.warning("connection refused", reason="too many", most=self._most)
        return False

    def took(self, outside: _Outside, size: int) -> None:
        """Note *size* more bytes of a connection, or fewer; end it if there are too many."""
        self._waiting += size
        crowd = outside
        if outside.taken <= self._call_bytes:
            if self._waiting <= self._sum_bytes:
                return
            crowd = max(self._open, key=lambda one: one.taken)
        if self._repeats.show("bytes"):
            event = "connection ended: its calls are too large"
            log.warning(event, peer=crowd.host, bytes=crowd.taken, most=self._call_bytes)
        crowd.end()

    def closed(self, outside: _Outside, peer: str) -> None:
        """Forget a connection that has ended."""
        self._waiting -= outside.taken
        self._open.discard(outside)
        self._known.pop(peer, None)

    async def _end(self) -> None:
        self._server.close()
        for connection in list(self._open):
            connection.end()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # lets the transports close


class _Side(asyncio.BufferedProtocol):
    """One of the two connections of a caller."""

    def __init__(self, buffer: memoryview) -> None:
        self._transport: asyncio.Transport | None = None
        self.buffer = buffer
        self.other: _Side | None = None
        """The other one, once it is there."""

    @property
    def made(self) -> asyncio.Transport:
        """The connection."""
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; for asyncio, like the others."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where the next bytes go."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass them on."""
        if self.other is not None:
            self.other.made.write(bytes(self.buffer[:nbytes]))

    def pause_writing(self) -> None:
        """Read no more of the other side: this one takes nothing."""
        if self.other is not None:
            self.other.made.pause_reading()

    def resume_writing(self) -> None:
        """Read on."""
        if self.other is not None and self.other.may_read:
            self.other.made.resume_reading()

    @property
    def may_read(self) -> bool:
        """Whether anything may be read of this side."""
        return not self.made.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End the other side, too."""
        if self.other is not None:
            self.other.made.close()


class _Outside(_Side):
    """The connection to the caller."""

    def __init__(self, door: Door) -> None:
        super().__init__(door.buffer)
        self._door = door
        self.taken = 0
        """Bytes since the last accepted call."""
        self.host = ""
        """Address of the caller."""
        self._peer = ""
        self.trusted = False
        """Whether a call was accepted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        pause_reading(self.made)
        # asyncio does it only for sockets that name their protocol
        accepted = self.made.get_extra_info("socket")
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = str(self.made.get_extra_info("peername")[0])
        self._limit = self._door.opened(self)
        self._number = self._door.strangers.admit(self.host, self.end)
        self._connecting = asyncio.get_running_loop().create_task(self._door.connect(self))

    def join(self, inside: _Inside, peer: str) -> None:
        """Let what the caller sends go to *inside*, which Flight calls *peer*, from `begin` on."""
        self.other, self._peer = inside, peer
        if self.made.is_closing():
            inside.made.close()

    def begin(self) -> None:
        """Begin to pass on what both sides send."""
        if self.other is not None and not self.other.made.is_closing():
            self.other.made.resume_reading()
        if self.may_read:
            self.made.resume_reading()

    async def begin_tls(
        self, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext, limit_s: float
    ) -> None:
        """Let TLS begin; what comes then is passed on decrypted."""
        encrypted = await loop.start_tls(
            self.made, self, context, server_side=True, ssl_handshake_timeout=limit_s
        )
        assert encrypted is not None
        self._transport = encrypted
        if not self.may_read:
            encrypted.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        # not empty, even if TLS had more in memory when reading was paused
        return self.buffer if self.trusted else self.buffer[: max(1, STRANGER_BYTES - self.taken)]

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        self.taken += nbytes
        if not self.trusted and self.taken >= STRANGER_BYTES:
            self.made.pause_reading()  # until a call is accepted, or the time is up
        self._door.took(self, nbytes)

    @property
    def may_read(self) -> bool:
        return super().may_read and (self.trusted or self.taken < STRANGER_BYTES)

    def trust(self) -> None:
        """Pass on what comes from now on: a call was accepted."""
        taken, self.taken = self.taken, 0
        self._door.took(self, -taken)
        if not self.trusted:
            if not self._door.admits():
                self.end()
                return
            self.trusted = True
            self._let_go()
            if not self.made.is_closing():
                self.made.resume_reading()

    def end(self) -> None:
        """End the connection."""
        self.made.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        self._connecting.cancel()
        self._door.closed(self, self._peer)
        super().connection_lost(exc)

    def _let_go(self) -> None:
        self._limit.cancel()
        self._door.strangers.dismiss(self._number)


class _Inside(_Side):
    """The connection to Flight."""

    def __init__(self, outside: _Outside) -> None:
        super().__init__(outside.buffer)
        self.other = outside

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        pause_reading(self.made)  # Flight speaks at once, and TLS may have to begin before
