"""The listening socket for the processes of a real-time query, and authentication there."""

from __future__ import annotations

import contextlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from wallaroo.errors import RuntimeFailure
from wallaroo.system.binding import listening_at, listening_socket, why_not_bound
from wallaroo.system.tls_stream import TLSStream
from wallaroo.system.token_attempts import Guesses
from wallaroo.system.unauthenticated import Strangers
from wallaroo.wire.channel import PROOF_BYTES, keep_alive, proof
from wallaroo.wire.frame_socket import Stream

_BACKLOG = 64
_HELLO_S = 10.0
"""Time for a peer to introduce itself."""
_MOST_STRANGERS = 64
"""Connections at a time that have not introduced themselves; if there are more, the oldest one of
the address with the most is closed."""

T = TypeVar("T")


class Listener:
    """A listening socket.

    Args:
        listener: The socket, bound.
        token: The token that peers must prove to know; None for a Unix socket.
        context: Certificate and key, for TLS.
        hello_s: Time for a peer to introduce itself.
        guesses: Counts and logs wrong proofs.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: str | None,
        context: ssl.SSLContext | None = None,
        hello_s: float = _HELLO_S,
        guesses: Guesses | None = None,
    ) -> None:
        self._listener = listener
        self._proof = None if token is None else proof(token)
        self._context = context
        self._hello_s = hello_s
        self._guesses = guesses or Guesses()
        self._strangers = Strangers(_MOST_STRANGERS)
        self._numbers: dict[socket.socket, int] = {}
        """Numbers of the strangers."""
        listener.listen(_BACKLOG)

    @classmethod
    def at_path(cls, path: Path) -> Listener:
        """Listen at a Unix socket, in a directory that only this user can enter."""
        return cls(listening_at(path, _BACKLOG), None)

    @classmethod
    def at_port(
        cls,
        host: str,
        port: int,
        token: str | None,
        context: ssl.SSLContext | None,
        guesses: Guesses | None = None,
    ) -> Listener:
        """Listen at a port; 0 for one that the system chooses.

        Raises:
            RuntimeFailure: There is no token, or the port cannot be bound.
        """
        if token is None:
            msg = "the port for chunks requires a token: name its file with --token-file"
            raise RuntimeFailure(msg)
        try:
            return cls(listening_socket(host, port), token, context, guesses=guesses)
        except OSError as error:
            reason = why_not_bound(error, host, "--chunks-port")
            msg = f"the port {port} for chunks cannot be bound on {host}: {reason}"
            raise RuntimeFailure(msg) from error

    @property
    def port(self) -> int | None:
        """The port; None for a Unix socket."""
        name = self._listener.getsockname()
        return int(name[1]) if isinstance(name, tuple) else None

    def accept(self) -> socket.socket | None:
        """The next connection, for `introduced`; None after `close`."""
        try:
            connection, peer = self._listener.accept()
        except OSError:
            return None
        host = str(peer[0]) if self._proof is not None else ""
        self._numbers[connection] = self._strangers.admit(host, lambda: _shut_down(connection))
        return connection

    def introduced(self, connection: socket.socket, hear: Callable[[Stream], T]) -> T | None:
        """What *hear* returns for *connection*; None if its peer may not use the gateway.

        Raises:
            OSError: The peer is gone, or has taken too long.
        """
        limit = threading.Timer(self._hello_s, _shut_down, (connection,))
        limit.name, limit.daemon = "chunks-hello", True
        limit.start()
        try:
            stream = self._admitted(connection)
            return None if stream is None else hear(stream)
        finally:
            limit.cancel()
            self._strangers.dismiss(self._numbers.pop(connection))

    def close(self) -> None:
        """Accept no more connections."""
        _shut_down(self._listener)
        self._listener.close()

    def _admitted(self, connection: socket.socket) -> Stream | None:
        if self._proof is None:
            return connection
        keep_alive(connection)
        stream: Stream = connection
        if self._context is not None:
            stream = TLSStream(connection, self._context)
        shown = b""
        while len(shown) < PROOF_BYTES:
            piece = stream.recv(PROOF_BYTES - len(shown))
            if not piece:
                return None
            shown += piece
        host = str(connection.getpeername()[0])
        if hmac.compare_digest(shown, self._proof):
            return stream
        if not self._guesses.wait_s(host):
            self._guesses.note_wrong(host, "the token is not this gateway's", action="chunks")
        return None


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)
