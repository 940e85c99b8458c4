"""TLS over a stream socket on which one thread receives while others send.

`ssl.SSLSocket` is not made for that: OpenSSL's state of a connection has no lock, or has one that a
thread holds while it waits for data. Here the state only changes between calls of the system.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

_PIECE_BYTES = 256 * 1024


class TLSStream:
    """A TLS connection; any thread may send, and one of them receives.

    Args:
        connection: The socket, connected. Its time limit applies to the handshake.
        context: Certificate, or trusted authorities.
        server_name: Name that the server's certificate must have; None for the server itself.

    Raises:
        OSError: The handshake failed.
    """

    def __init__(
        self, connection: socket.socket, context: ssl.SSLContext, server_name: str | None = None
    ) -> None:
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._state = threading.Lock()
        """Held for as long as the state of the connection changes, never while waiting."""
        self._sending = threading.Lock()
        """Held until what was encrypted is sent, so that it stays in order."""
        self._shake_hands()

    def sendall(self, data: bytes) -> None:
        """Send *data*.

        Raises:
            OSError: The other side is gone.
        """
        rest = memoryview(data)
        with self._sending:
            with self._state:
                while rest:
                    rest = rest[self._tls.write(rest) :]
            self._send_encrypted()

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Up to *size* bytes; none at the end of the stream.

        Raises:
            BlockingIOError: There are none yet, and *flags* are `MSG_DONTWAIT`.
            OSError: The connection is broken.
        """
        while True:
            with self._state:
                try:
                    return self._tls.read(size)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return b""
            self._send_answer()
            piece = self._connection.recv(_PIECE_BYTES, flags)
            if not piece:
                return b""
            with self._state:
                self._incoming.write(piece)

    def settimeout(self, seconds: float | None) -> None:
        """Limit the time of each call; None for no limit."""
        self._connection.settimeout(seconds)

    def fileno(self) -> int:
        """The file descriptor."""
        return self._connection.fileno()

    def shutdown(self, how: int) -> None:
        """Shut the connection down, even if another thread is receiving."""
        self._connection.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_encrypted()
                piece = self._connection.recv(_PIECE_BYTES)
                if not piece:
                    msg = "the other side has closed the connection"
                    raise ConnectionError(msg) from None
                self._incoming.write(piece)
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._send_encrypted()  # what is wrong
                raise
            else:
                self._send_encrypted()
                return

    def _send_answer(self) -> None:
        """Send an answer of the protocol itself, if there is one.

        It never waits for another thread that sends: that one may be waiting for the other side,
        which may send no more until this thread has received. It sends the answer then.
        """
        if self._outgoing.pending and self._sending.acquire(blocking=False):
            try:
                self._send_encrypted()
            finally:
                self._sending.release()

    def _send_encrypted(self) -> None:
        while self._outgoing.pending:
            with self._state:
                data = self._outgoing.read()
            self._connection.sendall(data)
