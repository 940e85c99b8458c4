"""The sockets of sources and sinks that listen."""

from __future__ import annotations

import socket

from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import HTTPSource, TCPSource
from wallaroo.model.sse import SSESink
from wallaroo.system.binding import listening_socket, why_not_bound

BACKLOG = 1024
"""Connections that may wait to be accepted."""


def socket_of(endpoint: HTTPSource | TCPSource | SSESink) -> socket.socket:
    """Return a socket that listens on the address of *endpoint*.

    Raises:
        RuntimeFailure: The address cannot be bound.
    """
    is_sink = isinstance(endpoint, SSESink)
    try:
        return listening_socket(endpoint.host, endpoint.port, BACKLOG)
    except (OSError, UnicodeError) as error:
        option = "SSESinkConfig" if is_sink else "--in"
        msg = (
            f"{'sink' if is_sink else 'source'} {endpoint.name!r} cannot listen on "
            f"{endpoint.host}:{endpoint.port}: {why_not_bound(error, endpoint.host, option)}"
        )
        raise RuntimeFailure(msg) from error
