"""The network between driver and gateway, which fails as it is told to."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Sequence

GATEWAY_SIDE, DRIVER_SIDE = "127.0.0.1", "127.0.0.2"
"""Where the gateway listens, and where the driver finds it: the same ports on both."""
_PIECE_BYTES = 64 * 1024
_CONNECT_S = 5.0
_LOOK_EVERY_S = 0.02
_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing ends a connection at once, whatever is under way."""


class Network:
    """Passes connections on from the driver's side to the gateway's.

    Args:
        ports: The gateway's.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.delay_s = 0.0
        """How long it holds back each piece."""
        self._open = threading.Event()
        self._open.set()
        self._closed = False
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._ports = ports
        self._listeners: list[socket.socket] = []
        self.accept()

    def stall(self) -> None:
        """Let nothing through: nobody is told, and connections stay."""
        self._open.clear()

    def go_on(self) -> None:
        """Let through what was held back."""
        self._open.set()

    def refuse(self) -> None:
        """Reset all connections, and refuse others."""
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._listeners = []
        self.cut()

    def accept(self) -> None:
        """Accept connections, at first and after `refuse`."""
        for port in self._ports:
            listener = socket.create_server((DRIVER_SIDE, port), backlog=128)
            self._listeners.append(listener)
            threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()

    def cut(self, chance: random.Random | None = None) -> int:
        """Reset all connections, each in the middle of its next piece if there is *chance*.

        Returns:
            How many there were.
        """
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            if chance is None:
                pair.reset()
            else:
                pair.share = chance.random()
        return len(pairs)

    def close(self) -> None:
        """End it."""
        self._closed = True
        self.go_on()
        self.refuse()

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near, port), daemon=True).start()

    def _join(self, near: socket.socket, port: int) -> None:
        self._open.wait()
        try:
            far = socket.create_connection((GATEWAY_SIDE, port), _CONNECT_S)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        pair = _Pair(near, far)
        with self._lock:
            self._pairs.add(pair)
        back = threading.Thread(target=self._pass, args=(pair, far, near), daemon=True)
        back.start()
        self._pass(pair, near, far)
        back.join()
        with self._lock:
            self._pairs.discard(pair)
        pair.close()

    def _pass(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                time.sleep(self.delay_s)
                self._open.wait()
                if pair.share is not None:
                    target.sendall(data[: int(len(data) * pair.share)])
                    break
                target.sendall(data)
        if pair.share is not None:
            time.sleep(_LOOK_EVERY_S)  # a reset would throw away what was just sent
            pair.reset()
        self._open.wait()  # nor does an end get through
        pair.shut_down()


class _Pair:
    """The two connections that are one for those at their ends."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._sockets = (near, far)
        self.share: float | None = None
        """Of the next piece, how much is let through before the end; None for all."""
        for connection in self._sockets:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reset(self) -> None:
        """End it at once, whatever is under way."""
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.shut_down()

    def shut_down(self) -> None:
        """End it in both directions."""
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free both sockets."""
        for connection in self._sockets:
            connection.close()
