"""The connections of a query's processes: authentication, and frames in both directions.

They belong to the gateway's event loop, which never waits for one of them: what a process does not
take at once is sent when it does. Otherwise gateway, first stage and partitions could wait for each
other with all buffers full.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import struct
from pathlib import Path
from typing import Protocol

from wallaroo.errors import RuntimeFailure
from wallaroo.system.binding import listening_at, listening_socket, why_not_bound
from wallaroo.system.token_attempts import Guesses
from wallaroo.system.unauthenticated import Strangers
from wallaroo.wire.channel import PROOF_BYTES, keep_alive, proof

_BACKLOG = 64
_HELLO_S = 10.0
"""Time for a peer to introduce itself."""
_MOST_STRANGERS = 64
"""Connections at a time that have not introduced themselves; if there are more, the oldest one of
the address with the most is closed."""
_LENGTH = struct.Struct(">I")
_MOST_BYTES_AT_FIRST = 4096
"""Bytes of the frame with which a peer introduces itself, at most."""
_LEAVE_S = 5.0
"""Time that a peer has to take what it was sent before its connection is closed."""


class Session(Protocol):
    """What a peer takes part in, once it has introduced itself."""

    def receive(self, role: int, frame: bytes) -> None:
        """Take a frame of the process *role*."""

    def close(self) -> None:
        """End, as a process is gone."""


class Host(Protocol):
    """What a peer needs of the server."""

    def introduce(self, peer: Peer, frame: bytes) -> tuple[int, Session] | None:
        """The role of *peer*, whose first frame this is, and its session; None to refuse it."""

    def misunderstood(self, error: Exception) -> None:
        """A peer has sent what makes no sense."""


class Peer(asyncio.Protocol):
    """One connection.

    Args:
        host: The server.
        listener: Decides whether the peer may use the gateway.
    """

    def __init__(self, host: Host, listener: PeerListener) -> None:
        self._host, self._listener = host, listener
        self._held = bytearray()
        self._role: int | None = None
        self._session: Session | None = None
        self._is_proven = listener.proof is None
        self._may_write = asyncio.Event()
        self._may_write.set()

    # --- asyncio's calls -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if self._listener.proof is not None:
            keep_alive(transport.get_extra_info("socket"))
        self._listener.admit(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        held = self._held
        held += data
        if not self._is_proven and not self._prove():
            return
        start = 0
        while len(held) - start >= _LENGTH.size and not self._transport.is_closing():
            (length,) = _LENGTH.unpack_from(held, start)
            if self._session is None and length > _MOST_BYTES_AT_FIRST:
                self.abort()
                break
            end = start + _LENGTH.size + length
            if len(held) < end:
                break
            self._receive(bytes(memoryview(held)[start + _LENGTH.size : end]))
            start = end
        del held[:start]

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's call
        """See `asyncio.Protocol`."""
        self._listener.dismiss(self)
        self._may_write.set()
        if self._session is not None:
            self._session.close()  # without one of its processes, a query cannot continue

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._may_write.set()

    # --- frames ----------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        """Send a frame of *parts*, now or when the peer takes it."""
        if not self._transport.is_closing():
            self._transport.writelines((_LENGTH.pack(sum(map(len, parts))), *parts))

    def is_ready(self) -> bool:
        """Whether the peer has taken all that it was sent."""
        return self._transport.get_write_buffer_size() == 0

    async def drained(self) -> bool:
        """Wait until the peer has taken most of it; returns whether it is still there."""
        await self._may_write.wait()
        return not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, once the peer has taken what it was sent."""
        self._transport.close()
        asyncio.get_running_loop().call_later(_LEAVE_S, self._transport.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _prove(self) -> bool:
        """Whether the peer has shown that it may use the gateway."""
        if len(self._held) < PROOF_BYTES:
            return False
        shown = bytes(self._held[:PROOF_BYTES])
        del self._held[:PROOF_BYTES]
        self._is_proven = self._listener.is_right(shown, self.address)
        if not self._is_proven:
            self.abort()
        return self._is_proven

    def _receive(self, frame: bytes) -> None:
        try:
            if self._session is not None:
                assert self._role is not None
                self._session.receive(self._role, frame)
                return
            admitted = self._host.introduce(self, frame)
        except (LookupError, TypeError, ValueError, struct.error) as error:
            self._host.misunderstood(error)
            self.close()
            return
        if admitted is None:
            self.close()
        else:
            self._role, self._session = admitted
            self._listener.dismiss(self)


class PeerListener:
    """Where the processes of a query connect.

    Args:
        path: Path of a Unix socket, in a directory that only this user can enter; None for a port.
        host: The host to listen on.
        port: The port; 0 for one that the system chooses.
        token: The token that peers must prove to know; None for a Unix socket.
        context: Certificate and key, for TLS.
        guesses: Counts and logs wrong proofs.
        hello_s: Time for a peer to introduce itself.

    Raises:
        RuntimeFailure: There is no token, or the port cannot be bound.
    """

    def __init__(
        self,
        path: Path | None = None,
        host: str = "",
        port: int = 0,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
        guesses: Guesses | None = None,
        hello_s: float = _HELLO_S,
    ) -> None:
        self.proof = None if path is not None else _proof(token)
        self._socket = listening_at(path, _BACKLOG) if path is not None else _bound(host, port)
        self._context = context
        self._hello_s = hello_s
        self._guesses = guesses or Guesses()
        self._strangers = Strangers(_MOST_STRANGERS)
        self._limits: dict[Peer, tuple[int, asyncio.TimerHandle]] = {}
        """Peers that have not introduced themselves: their numbers, and until when they may."""
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int | None:
        """The port; None for a Unix socket."""
        name = self._socket.getsockname()
        return int(name[1]) if isinstance(name, tuple) else None

    async def start(self, host: Host) -> None:
        """Accept connections for *host*."""
        loop = asyncio.get_running_loop()

        def peer() -> Peer:
            return Peer(host, self)

        self._socket.setblocking(False)
        if self.proof is None:
            self._server = await loop.create_unix_server(peer, sock=self._socket, backlog=_BACKLOG)
        else:
            limit = None if self._context is None else self._hello_s
            self._server = await loop.create_server(
                peer,
                sock=self._socket,
                backlog=_BACKLOG,
                ssl=self._context,
                ssl_handshake_timeout=limit,
            )

    def close(self) -> None:
        """Accept no more connections."""
        server, self._server = self._server, None
        if server is None:
            self._socket.close()
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        # asyncio loses a connection that it accepts in the turn in which its server is closed
        loop.call_soon(server.close)

    def admit(self, peer: Peer) -> None:
        """Give *peer* some time to introduce itself."""
        number = self._strangers.admit(peer.address, peer.abort)
        limit = asyncio.get_running_loop().call_later(self._hello_s, peer.abort)
        self._limits[peer] = number, limit

    def dismiss(self, peer: Peer) -> None:
        """Note that *peer* has introduced itself, or is gone."""
        if (known := self._limits.pop(peer, None)) is not None:
            number, limit = known
            limit.cancel()
            self._strangers.dismiss(number)

    def is_right(self, shown: bytes, address: str) -> bool:
        """Whether a peer at *address* has *shown* that it knows the token."""
        assert self.proof is not None
        if hmac.compare_digest(shown, self.proof):
            return True
        if not self._guesses.wait_s(address):
            self._guesses.note_wrong(address, "the token is not this gateway's", action="chunks")
        return False


def _proof(token: str | None) -> bytes:
    if token is None:
        msg = "the port for chunks requires a token: name its file with --token-file"
        raise RuntimeFailure(msg)
    return proof(token)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return listening_socket(host, port)
    except OSError as error:
        reason = why_not_bound(error, host, "--chunks-port")
        msg = f"the port {port} for chunks cannot be bound on {host}: {reason}"
        raise RuntimeFailure(msg) from error
