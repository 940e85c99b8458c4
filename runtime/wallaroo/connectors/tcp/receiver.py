"""Connections to receivers, and what is wrong with them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import ssl
import struct
import termios

from wallaroo.errors import reason_of

_CONNECT_TIMEOUT_S = 5.0
_SILENCE_MS = 30_000
"""A receiver that acknowledges nothing for this long is considered lost."""


def connected(host: str, port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """A connection to a receiver, which does not block; takes a while to make.

    Args:
        host: Host of the receiver, by which its certificate is verified.
        port: Its port.
        tls: The context; None for plain TCP.

    Raises:
        OSError: It cannot be made, or the receiver does not speak TLS or cannot be verified.
        UnicodeError: The address cannot be one.
    """
    connection = socket.create_connection((host, port), _CONNECT_TIMEOUT_S)
    with contextlib.ExitStack() as failing:  # it may be reset already
        failing.callback(connection.close)
        if connection.getsockname() == connection.getpeername():
            # trying a free local port again and again, TCP may one day connect it to itself
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
        if tls is not None:
            connection = tls.wrap_socket(connection, server_hostname=host)
        failing.pop_all()
    connection.setblocking(False)
    return connection


def check_intact(connection: socket.socket) -> None:
    """Refuse a connection that is broken.

    Raises:
        OSError: It is.
    """
    if broken := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(broken, os.strerror(broken))


def unacknowledged(connection: socket.socket) -> int:
    """Number of bytes that the receiver's side has not acknowledged yet."""
    (left,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
    return int(left)


def problem_of(error: OSError | UnicodeError) -> str:
    """What is wrong, according to an *error* of a connection."""
    if isinstance(error, socket.gaierror):
        return f"the name does not resolve ({error.strerror}): is the address right?"
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", None) or error.reason or str(error)
    return reason_of(error)
