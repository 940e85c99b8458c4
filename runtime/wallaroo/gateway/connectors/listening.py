"""The sockets of sources that listen."""

from __future__ import annotations

import socket

from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import HTTPSource, TCPSource
from wallaroo.system.binding import listening_socket, why_not_bound

BACKLOG = 1024
"""Connections that may wait to be accepted."""


def socket_of(source: HTTPSource | TCPSource) -> socket.socket:
    """Return a socket that listens on the address of *source*.

    Raises:
        RuntimeFailure: The address cannot be bound.
    """
    try:
        return listening_socket(source.host, source.port, BACKLOG)
    except (OSError, UnicodeError) as error:
        msg = (
            f"source {source.name!r} cannot listen on {source.host}:{source.port}: "
            f"{why_not_bound(error, source.host, '--in')}"
        )
        raise RuntimeFailure(msg) from error
