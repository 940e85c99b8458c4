"""Connections of a query's processes to the gateway's socket for chunks.

Its address is the path of a Unix socket, which no other user can open, or for other machines
`tcp://HOST:PORT` or `tls://HOST:PORT`. Over TCP the first bytes prove that the process knows the
token of the internal API; the gateway reads nothing else before.
"""

from __future__ import annotations

import hmac
import socket

from wallaroo.errors import UsageError
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, token_here, trusting_here
from wallaroo.system.service_address import connected
from wallaroo.system.tls_stream import TLSStream
from wallaroo.wire.frame_socket import FrameSocket, Stream

PROOF_BYTES = 32
"""Length of the proof that a process knows the token."""
_PURPOSE = b"wallaroo real-time chunks, version 1"
_CONNECT_S = 5.0
"""Time to connect, and to agree on TLS."""
_IDLE_S, _PROBE_EVERY_S, _PROBES = 5, 3, 3
"""A machine that has vanished is noticed after about 15 s."""
_UNACKNOWLEDGED_MS = 180_000
"""Time after which bytes that the other machine does not take end the connection: longer than a
function of the application may keep a process from reading."""


def connect(address: str, token: str | None = None) -> FrameSocket:
    """A connection to the gateway at *address*.

    Args:
        address: The address, as above.
        token: The token; None for the one in this process's environment.

    Raises:
        OSError: The gateway cannot be reached.
        UsageError: The environment lacks the token, or the authorities that TLS requires.
    """
    kind, _, place = address.rpartition("://")
    if not kind:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(None)  # whatever user code has set for its own
        try:
            connection.connect(place)
        except OSError:
            connection.close()
            raise
        return FrameSocket(connection)
    token = token or token_here()
    if token is None:
        msg = f"the gateway at {address} requires a token, and the environment has none"
        raise UsageError(msg)
    context = trusting_here() if kind == "tls" else None
    if context is None and kind == "tls":
        msg = f"the gateway speaks TLS: {AUTHORITIES_VARIABLE} is to name a file"
        raise UsageError(msg)
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    connection = connected(lambda: socket.create_connection((host, int(port)), _CONNECT_S))
    try:
        keep_alive(connection)
        stream: Stream = connection
        if context is not None:
            stream = TLSStream(connection, context, host)
        stream.sendall(proof(token))
        stream.settimeout(None)
    except OSError:
        connection.close()
        raise
    return FrameSocket(stream)


def proof(token: str) -> bytes:
    """What proves to the gateway that a process knows *token*, without giving it away."""
    return hmac.digest(token.encode(), _PURPOSE, "sha256")


def keep_alive(connection: socket.socket) -> None:
    """Send small frames at once, and notice when the machine on the other side has vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_S),
        ("TCP_KEEPINTVL", _PROBE_EVERY_S),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MS),
    ):
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
