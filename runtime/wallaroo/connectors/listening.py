"""The sockets of sources and sinks that listen."""

from __future__ import annotations

import socket

from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import Listening
from wallaroo.system.binding import bound_socket, listening_socket, why_not_bound

BACKLOG = 1024
"""Connections that may wait to be accepted."""


def socket_of(
    endpoint: Listening, kind: str, option: str, *, listens: bool = True
) -> socket.socket:
    """Return a socket that listens on the address of *endpoint*.

    Args:
        endpoint: The source or sink.
        kind: Which of both it is.
        option: What sets its address.
        listens: Whether it does so already; until then, connections are refused.

    Raises:
        RuntimeFailure: The address cannot be bound.
    """
    try:
        if not listens:
            return bound_socket(endpoint.host, endpoint.port)
        return listening_socket(endpoint.host, endpoint.port, BACKLOG)
    except (OSError, UnicodeError) as error:
        msg = (
            f"{kind} {endpoint.name!r} cannot listen on "
            f"{endpoint.where}: {why_not_bound(error, endpoint.host, option)}"
        )
        raise RuntimeFailure(msg) from error
