"""Kills of each process of an application with many keys: how long no output comes."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from tests.chaos.parts import Event, Part
from tests.helpers import wait_until

from benchmarks import loads
from benchmarks.ends import connected
from benchmarks.figures import Figure, Settings, median_of
from benchmarks.keys.application import MESSAGE, OUTPUT
from benchmarks.loads import Load
from wallaroo.api.places import Place
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.run.background_run import BackgroundRun
from wallaroo.run.gateway_process import reserved_ports
from wallaroo.wire.framing import Framing

_KILLS = 5
"""How often each kind of process is killed."""
_EVERY_S = 0.005
"""Time between two messages, and between two attempts to connect."""
_SETTLE_S = 2.0
"""Time between a recovery and the next kill."""
_SURE_S = 0.5
"""A message that was sent so long after a kill tells whether its time is over."""
_PATIENCE_S = 120.0
KINDS = {
    "driver": "the driver",
    "java": "Spark's Java",
    "gateway": "the gateway",
    "reader": "the first stage",
    "worker": "a partition",
    "agent": "the parent of the stages",
    "everything": "everything at once",
}
"""What is killed, and what it is called."""


def failover(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Seconds from a kill until outputs come again, by what is killed."""
    with Service(loads.each_key_once(settings.many_keys), settings.workers, scratch) as service:
        for kind, name in KINDS.items():
            taken = [service.kill(kind) for _ in range(_KILLS)]
            what = f"kill of {name} with {settings.many_keys:,} keys, until the next output"
            yield median_of(what, taken, "s")


class Service:
    """`wallaroo run`, started again whenever it ends, between a steady sender and a receiver.

    Args:
        load: What it has processed and saved before it is killed: one message for each key.
        workers: Worker processes.
        scratch: Where files and state may be put.
        on_event: Called with each log event, in a thread.
    """

    def __init__(
        self,
        load: Load,
        workers: int,
        scratch: Path,
        on_event: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self._load = load
        self._stack = contextlib.ExitStack()
        source = TCPSource("in", Framing(4, ">I"), bytes, Place("", 0), "127.0.0.1", 0)
        (port,) = self._stack.enter_context(reserved_ports([source]))
        self._address = f"127.0.0.1:{port}"
        self._listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._received: list[tuple[float, int]] = []
        """When outputs came, and numbers of their messages."""
        self._sent = [0.0]
        """When messages were sent, by number; 0 is that of a message that was sent before."""
        self._ending = threading.Event()
        self._state = scratch / "state"
        self._on_event = on_event
        self._arguments = [
            *("run", str(load.app), "--in", self._address, "--workers", str(workers)),
            *("--out", "{}:{}".format(*self._listener.getsockname())),
            *("--state-dir", str(self._state)),
        ]

    def __enter__(self) -> Self:
        threading.Thread(target=self._receive, daemon=True).start()
        if not self._state.exists():
            self._preload()
        self._part = Part(self._arguments, os.environ, self._on_event)
        self._stack.callback(self._part.kill)
        if not self._part.wait_for_start():
            self.__exit__()
            msg = "wallaroo run did not start"
            raise RuntimeError(msg)
        threading.Thread(target=self._send, daemon=True).start()
        self._wait_for_output(time.monotonic())
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._part.runs:
            self._part.stop()  # what is killed leaves processes that write for a moment
        self._ending.set()
        self._stack.close()

    def kill(self, kind: str) -> float:
        """Kill a process; returns the seconds until outputs came again."""
        time.sleep(_SETTLE_S)
        part = self._part
        if kind == "everything":
            pids = [pid for one in KINDS for pid in part.processes(one)]
        else:
            pids = part.processes(kind)[:1]
        if kind in {"driver", "everything"}:
            pids.insert(0, part.pid)
        killed = time.monotonic()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has ended with another one
                os.kill(pid, signal.SIGKILL)
        self._wait_for_output(killed + _SURE_S)
        times = [killed, *(at for at, _ in self._received if at > killed)]
        _, back = max((after - before, after) for before, after in itertools.pairwise(times))
        return back - killed

    def _preload(self) -> None:
        """Give each key its state, and save it."""
        with BackgroundRun(self._arguments) as run:
            with connected(self._address) as connection:
                connection.sendall(self._load.inputs[0])
            run.wait_until_accepted("in", self._load.messages)
            run.stop()

    def _wait_for_output(self, since: float) -> None:
        """Wait for the output of a message that was sent after *since*."""

        def came() -> bool:
            return bool(self._received) and self._sent[self._received[-1][1]] > since

        wait_until(came, "an output", _PATIENCE_S)

    def _send(self) -> None:
        """Send a message for a key at random again and again, over any connection."""
        keys = random.Random(1)
        while not self._ending.is_set():
            with contextlib.suppress(OSError), connected(self._address) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while not self._ending.wait(_EVERY_S):
                    message = MESSAGE.pack(keys.randrange(self._load.messages), 1, len(self._sent))
                    self._sent.append(time.monotonic())
                    connection.sendall(len(message).to_bytes(4, "big") + message)
            self._ending.wait(_EVERY_S)

    def _receive(self) -> None:
        """Note when which outputs come."""
        while not self._ending.is_set():
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):
                while frame := connection.recv(OUTPUT.size, socket.MSG_WAITALL):
                    if len(frame) == OUTPUT.size:  # else the connection broke in its middle
                        _, number, _ = OUTPUT.unpack(frame)
                        self._received.append((time.monotonic(), number))
