"""What tests of running applications share: a receiver, senders, and a run of `wallaroo run`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, Self

from tests.helpers import processes_below
from wallaroo.cli.streams import Cutter, FramingName
from wallaroo.errors import RuntimeFailure
from wallaroo.run.background_run import BackgroundRun

APPS = Path(__file__).parents[2] / "apps"
PATIENCE_S = 300.0
"""How long to wait for what must happen before a test fails."""


class Receiver:
    """Listens on a port of its own or on *port*, takes every connection, keeps every message."""

    def __init__(self, framing: FramingName, port: int = 0) -> None:
        self._framing: FramingName = framing
        self._listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.messages: list[bytes] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._listener.close()

    def wait_for(self, count: int, patience_s: float = PATIENCE_S) -> list[bytes]:
        """The messages, once there are *count* of them."""
        with self._changed:
            there = self._changed.wait_for(lambda: len(self.messages) >= count, patience_s)
            assert there, f"{len(self.messages)} messages came, and {count} are due"
            return list(self.messages)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        cutter = Cutter(self._framing)
        with connection:
            while piece := connection.recv(1 << 16):
                with self._changed:
                    self.messages += cutter.feed(piece)
                    self._changed.notify_all()


def frame(payload: bytes, header: int = 4) -> bytes:
    """*payload* behind its length, a big-endian integer of *header* bytes."""
    return len(payload).to_bytes(header, "big") + payload


def send(address: str, payloads: Iterable[bytes], header: int = 4) -> None:
    """Send framed *payloads* on a connection of their own, and wait until all are read."""
    send_bytes(address, b"".join(frame(payload, header) for payload in payloads))


def send_bytes(address: str, data: bytes) -> None:
    """Send *data* on a connection of its own, and wait until the other side has closed it."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


class ReportedRun(BackgroundRun):
    """A run that prints its log, and what it does, if the test fails."""

    def __exit__(self, *exc: object) -> None:
        if any(exc):
            for event in self.events:
                print(json.dumps(event))
            with contextlib.suppress(RuntimeFailure):
                print(self.client and self.client.status())
        super().__exit__(*exc)


def run(
    app: Path, receiver: Receiver | str, state: Path, sources: int = 1, options: Sequence[str] = ()
) -> BackgroundRun:
    """`wallaroo run` on free ports with two workers; a context manager.

    Its outputs go to *receiver*, or to the address of one that is to come.
    """
    addresses = ",".join(["127.0.0.1:0"] * sources)
    to = receiver if isinstance(receiver, str) else receiver.address
    return ReportedRun(
        [
            *("run", str(app), "--in", addresses, "--out", to, "--workers", "2"),
            *("--state-dir", str(state), "--ui", "127.0.0.1:0", *options),
        ]
    )


def called(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: one that starts Spark would stop that of the tests."""
    command = [sys.executable, "-m", "wallaroo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


class Running(Protocol):
    """A run as a child process."""

    process: subprocess.Popen[bytes]


def processes(running: Running, part: str) -> list[int]:
    """Numbers of the run's processes that have *part* in their command lines."""
    found = processes_below(running.process.pid)
    return [pid for pid, command in found.items() if part in command]


def kill_gateway(running: Running) -> None:
    (gateway,) = processes(running, " wallaroo gateway ")
    os.kill(gateway, signal.SIGKILL)
