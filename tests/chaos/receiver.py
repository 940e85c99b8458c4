"""The receiver of the outputs, which behaves as badly as it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from tests.chaos.ledger import Ledger
from wallaroo.errors import FrameError
from wallaroo.wire.numbered import NUMBER, SequenceCutter


class Receiver:
    """Takes outputs as long as it is told to; drops those that come again by their numbers."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.manner = "good"
        """good, slow (1 kB a second), slamming or deaf."""
        self.repeated = 0
        self.problems: list[str] = []
        self._seen: dict[str, int] = {}
        self._connection: socket.socket | None = None
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def hang_up(self) -> None:
        """End the connection, as it is."""
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                if self.manner == "slamming":
                    continue
                if self.manner == "slow":  # what the kernel would take for it counts as received
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                self._connection = connection
                self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        cutter = SequenceCutter(self._seen)
        try:
            while True:
                while self.manner == "deaf" and not self._closed:
                    time.sleep(0.02)
                if self.manner == "slow":
                    time.sleep(1.0)
                data = connection.recv(1024 if self.manner == "slow" else 1 << 16)
                if not data:
                    break
                self._ledger.note(cutter.feed(data))
                connection.sendall(NUMBER.pack(cutter.last))
        except OSError:
            pass
        except FrameError as error:
            self.problems.append(f"receiver: {error}")
        self.repeated += cutter.repeated
