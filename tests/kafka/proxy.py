"""The network in front of a broker, which tests cut."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

_RESET = struct.pack("ii", 1, 0)
"""`SO_LINGER` with which closing a connection resets it."""
_SLOW_BYTES, _SLOW_S = 1024, 0.05


class Proxy:
    """Forwards connections to an address, in a manner that can be changed at any time.

    `open`: as they are. `hole`: nothing arrives, and nothing tells. `slow`: 20 kB a second in each
    direction. `refused`: every connection is reset, open ones and new ones.

    Args:
        target: `HOST:PORT`.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._manner = "open"
        self._changed = threading.Condition()
        self._ends: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def manner(self) -> str:
        """How it forwards."""
        return self._manner

    @manner.setter
    def manner(self, manner: str) -> None:
        with self._changed:
            self._manner = manner
            if manner in ("refused", "closed"):
                for end in self._ends:
                    self._reset(end)
            self._changed.notify_all()

    def close(self) -> None:
        """Forward nothing any more."""
        self.manner = "closed"
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(client)
            with self._changed:
                self._changed.wait_for(lambda: self._manner != "hole")
                if self._manner in ("refused", "closed"):
                    self._reset(client)
                    return
            try:
                server = stack.enter_context(socket.create_connection(self._target))
            except OSError:
                return
            ends = {client, server}
            with self._changed:
                self._ends |= ends
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()
            with self._changed:
                self._ends -= ends

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                slow = self._manner == "slow"
                data = one.recv(_SLOW_BYTES if slow else 1 << 16)
                with self._changed:
                    self._changed.wait_for(lambda: self._manner != "hole")
                if not data:
                    break
                other.sendall(data)
                if slow:
                    time.sleep(_SLOW_S)
        for end in (one, other):  # the other direction ends as well
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _reset(end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.shutdown(socket.SHUT_RDWR)
