"""What stands before the port of the internal API: little is read of callers without the token.

Flight hands a call to its authenticator only when it has all of the call's argument in memory,
however large it is, and accepts any number of connections. So on a port it listens on the loopback
address, and connections from outside come through here: until a call on a connection has been
accepted, only so many bytes pass, for only so long, on only so many connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import cast

from wallaroo.system.strangers import Strangers

STRANGER_BYTES = 64 * 1024
"""Bytes taken of a connection before a call on it is accepted: TLS, headers, and a small call."""
STRANGER_S = 10.0
"""Time until a call on a connection is to be accepted."""
MOST_STRANGERS = 64
"""Connections on which no call has been accepted yet."""
_BACKLOG = 128
_READ_BYTES = 256 * 1024


class Door:
    """Passes connections on to a port on the loopback address.

    Args:
        host: Where to listen.
        port: The port; 0 for one that the system chooses.
        inner: The port on the loopback address.
        stranger_s: Time until a call is to be accepted.

    Raises:
        OSError: The address cannot be bound.
    """

    def __init__(self, host: str, port: int, inner: int, stranger_s: float = STRANGER_S) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self.port = int(listener.getsockname()[1])
        """The port that is bound."""
        self._inner, self._stranger_s = inner, stranger_s
        self.strangers = Strangers(MOST_STRANGERS)
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
        if connection is not None and not connection.trusted:
            with contextlib.suppress(RuntimeError):  # the door is closed
                self._loop.call_soon_threadsafe(connection.trust)

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
        try:
            _, inside = await self._loop.create_connection(
                lambda: _Inside(outside), "127.0.0.1", self._inner
            )
        except OSError:
            outside.end()
            return
        peer = f"ipv4:127.0.0.1:{inside.made.get_extra_info('sockname')[1]}"
        self._known[peer] = outside
        outside.join(inside, peer)

    def opened(self, outside: _Outside) -> asyncio.TimerHandle:
        """Note a connection, and end it when its time is up."""
        self._open.add(outside)
        return self._loop.call_later(self._stranger_s, outside.end)

    def closed(self, outside: _Outside, peer: str) -> None:
        """Forget a connection that has ended."""
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
        self._taken = 0
        self._peer = ""
        self.trusted = False
        """Whether a call was accepted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.made.pause_reading()
        # asyncio does it only for sockets that name their protocol
        accepted = self.made.get_extra_info("socket")
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host = str(self.made.get_extra_info("peername")[0])
        self._limit = self._door.opened(self)
        self._number = self._door.strangers.admit(host, self.end)
        self._connecting = asyncio.get_running_loop().create_task(self._door.connect(self))

    def join(self, inside: _Inside, peer: str) -> None:
        """Begin to pass on what the caller sends to *inside*, which Flight calls *peer*."""
        self.other, self._peer = inside, peer
        if self.made.is_closing():
            inside.made.close()
        else:
            self.made.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self.buffer if self.trusted else self.buffer[: STRANGER_BYTES - self._taken]

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        if not self.trusted:
            self._taken += nbytes
            if self._taken >= STRANGER_BYTES:
                self.made.pause_reading()  # until a call is accepted, or the time is up

    @property
    def may_read(self) -> bool:
        return super().may_read and (self.trusted or self._taken < STRANGER_BYTES)

    def trust(self) -> None:
        """Pass on whatever comes from now on."""
        if not self.trusted:
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
