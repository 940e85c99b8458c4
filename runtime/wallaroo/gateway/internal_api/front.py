"""The listening socket of the internal API: it limits connections whose callers are unknown."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from wallaroo.system.unauthenticated import Strangers

STRANGER_S = 10.0
"""Seconds until a connection, TLS included, must have brought a call with the token."""
MOST_STRANGERS = 64
"""Connections at a time that have not; if there are more, the oldest one of the address with the
most is ended."""


class Front(socket.socket):
    """A listening socket for asyncio, which accepts connections by it before TLS begins.

    Args:
        listener: The socket, which this one replaces.
        stranger_s: See `STRANGER_S`.
    """

    def __init__(self, listener: socket.socket, stranger_s: float = STRANGER_S) -> None:
        super().__init__(fileno=listener.detach())
        self._stranger_s = stranger_s
        self._strangers = Strangers(MOST_STRANGERS)
        self._known: dict[int, Callable[[], None]] = {}
        """What to do when a stranger is known or gone, by its file descriptor."""

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection, which counts as a stranger's."""
        connection, address = super().accept()
        descriptor = connection.fileno()
        self.trust(descriptor)  # of a connection that has ended
        peer = str(address[0]) if isinstance(address, tuple) else ""
        number = self._strangers.admit(peer, partial(_end, connection))

        def end() -> None:
            _end(connection)
            if self._known.get(descriptor) is known:
                self.trust(descriptor)

        limit = asyncio.get_running_loop().call_later(self._stranger_s, end)

        def known() -> None:
            limit.cancel()
            self._strangers.dismiss(number)

        self._known[descriptor] = known
        return connection, address

    def trust(self, descriptor: int) -> None:
        """Count a connection as a stranger's no more: it has brought a call with the token."""
        if (known := self._known.pop(descriptor, None)) is not None:
            known()


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)
