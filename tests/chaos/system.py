"""A running application with senders, a receiver, and whoever starts it again when it ends."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self
from unittest import mock

from tests.chaos.ledger import Ledger
from tests.chaos.sockets import TO_FIRST_STAGE, TO_PARTITION, is_connected
from tests.helpers import processes_below, wait_until
from wallaroo.api.places import Place
from wallaroo.client import Sender
from wallaroo.engine.registry import DEFAULT, VARIABLE
from wallaroo.errors import FrameError, RuntimeFailure, UsageError
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.model.application import TCPSource
from wallaroo.run.background_run import BackgroundRun
from wallaroo.run.gateway_process import reserved_ports
from wallaroo.run.state.dead_letters import dead_letter_actions
from wallaroo.wire.framing import Framing
from wallaroo.wire.numbered import NUMBER, SequenceCutter

KILL, STOP, GO_ON = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
_FOLDER = Path(__file__).parent
APPLICATIONS = {
    name: _FOLDER / "applications" / f"{name}.py" for name in ("counting", "levels", "windows")
}
CLOCK = _FOLDER / "clock"
PRELOADED = 3
"""Messages that each preloaded key has seen."""
PRELOADED_RATE = 100
"""Messages a second to preloaded keys, each to one at random."""
JOURNAL_GIB = 0.0625
"""Size of the journal: so small that a flood fills it."""
WORKERS = 2
STREAMS = 3
"""Senders that send all the time, each a stream of its own."""
KEYS = 40
"""Keys of each of them."""
RATE = 400
"""Messages a second of each of them."""
PACE = "epoch_least_s=0.2,epoch_most_s=1,quiet_s=0.1"
"""Pace of the real-time engine: epochs end once a second."""
_BURST_S = 0.02
_START_S = 20.0
"""Time for a process to start that is about to."""
_LOOK_EVERY_S = 0.05
_SIGNAL_S = 0.05
"""Time in which a process that has passed a place is surely sent its signal."""
FUNCTION_TIMEOUT_S = 5
PATIENCE_S = 300.0
"""How long to wait for what must happen."""


class System:
    """The application, its senders and its receiver; a context manager.

    Args:
        directory: For everything that it writes.
        keys: Keys that have state before it starts.
        flood_s: How long a flood lasts.
        engine: Which engine runs it.
        application: Which one it is.
    """

    def __init__(
        self,
        directory: Path,
        keys: int = 0,
        flood_s: float = 60.0,
        engine: str = DEFAULT,
        application: str = "counting",
    ) -> None:
        self.flood_s = flood_s
        self.engine = engine
        self._application = APPLICATIONS[application]
        self._keys = keys
        self.directory = directory
        self.state = directory / "state"
        self.faults = directory / "faults"
        self.faults.mkdir()
        self.ledger = Ledger(lambda key: PRELOADED if key.startswith("p") else 0)
        self.receiver = Receiver(self.ledger)
        self.driver_starts = 0
        self.problems: list[str] = []
        """What ended senders, receiver or the application for good."""
        self.errors: Counter[str] = Counter()
        """How often the application logged what, as errors."""
        self._ending = threading.Event()
        self._stack = contextlib.ExitStack()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        environment = {
            "WALLAROO_FAULTS": str(self.faults),
            VARIABLE: self.engine,
            "WALLAROO_PACE": PACE,
            "PYTHONPATH": os.pathsep.join([str(CLOCK), os.environ.get("PYTHONPATH", "")]),
        }
        self._stack.enter_context(mock.patch.dict(os.environ, environment))
        if self._keys:
            self._preload()
        source = TCPSource("Chaos", Framing(4, ">I"), bytes, Place("", 0), "127.0.0.1", 0)
        (self.port,) = self._stack.enter_context(reserved_ports([source]))
        self.address = f"127.0.0.1:{self.port}"
        self._run = self._start()
        self._spawn(self._keep_running)
        for number in range(STREAMS):
            names = [f"s{number}k{key}" for key in range(KEYS)]
            self._spawn(self._send, f"stream {number}", RATE, itertools.cycle(names))
        if self._keys:
            chance = random.Random(1)
            known = (f"p{chance.randrange(self._keys)}" for _ in itertools.count())
            self._spawn(self._send, "preloaded", PRELOADED_RATE, known)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._run.__exit__()
        self.receiver.close()
        self._stack.close()

    def finish(self) -> int:
        """End the senders, then the application in good order; its exit code."""
        wait_until(self._is_kept_running, "the start after the last fault")
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return self._run.stop()

    @property
    def events(self) -> list[str]:
        """The last log events of the application, in words."""
        return [
            " ".join(f"{key}={value}" for key, value in event.items() if key != "timestamp")
            for event in self._run.events[-15:]
        ]

    @property
    def commits(self) -> int:
        """How often Spark has committed the state."""
        folder = self.state / "checkpoint" / "commits"
        return max((int(file.name) for file in folder.glob("[0-9]*")), default=-1) + 1

    def processes(self, kind: str) -> list[int]:
        """Numbers of the processes of a kind: driver, gateway, java, planner, worker.

        Those of a real-time query are its reader and its workers.
        """
        driver = self._run.process.pid
        if kind == "driver":
            return [driver]
        return [pid for pid, told in processes_below(driver).items() if _kind(pid, told) == kind]

    def started(self, kind: str) -> list[int]:
        """The same, as soon as there is one: the query may be about to start."""
        give_up = time.monotonic() + _START_S
        while not (pids := self.processes(kind)) and time.monotonic() < give_up:
            time.sleep(_LOOK_EVERY_S)
        return pids

    def signal(self, number: int, *pids: int) -> None:
        """Send a signal to each of *pids* that is still there."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == KILL and self._run.process.pid in pids:
            self._run.process.wait(PATIENCE_S)

    def reach(
        self,
        place: str,
        victim: int = 0,
        delay_ms: int = 0,
        number: int = KILL,
        meanwhile: Callable[[], None] = lambda: None,
        patience_s: float = 30.0,
    ) -> bool:
        """Kill a process at the next passing of *place*; tells whether it was passed."""
        file = self.faults / place
        fresh = self.faults / "new"
        fresh.write_text(f"{victim} {delay_ms} {int(number)}")
        fresh.rename(file)
        meanwhile()
        give_up = time.monotonic() + patience_s
        while file.exists():
            if time.monotonic() > give_up:
                file.unlink(missing_ok=True)
                return False
            time.sleep(0.005)
        time.sleep(_SIGNAL_S + delay_ms / 1000)  # the outputs of now say nothing of it
        return True

    def dead_letters(self) -> int:
        """How many messages are kept as dead letters."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                with dead_letter_actions(self.state) as desk:
                    return len(desk.letters(Choice(), 1_000_000))
            except (RuntimeFailure, UsageError):  # it is just being started
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.5)

    def _start(self) -> BackgroundRun:
        run = BackgroundRun(
            [
                *(
                    "run",
                    str(self._application),
                    "--engine",
                    self.engine,
                    "--in",
                    self.address,
                    "--out",
                    self.receiver.address,
                ),
                *("--workers", str(WORKERS), "--state-dir", str(self.state)),
                *("--function-timeout", str(FUNCTION_TIMEOUT_S), "--max-connections", "20000"),
                *("--journal-limit-gib", str(JOURNAL_GIB), "--partitions", str(WORKERS)),
            ],
            self._note,
        )
        run.__enter__()
        self.driver_starts += 1
        return run

    def _note(self, event: Mapping[str, str]) -> None:
        """Count errors, and lines that are no log events, such as tracebacks."""
        if event.get("level") not in ("debug", "info", "warning"):
            self.errors[" ".join(event.get(key, "") for key in ("event", "error"))[:120]] += 1

    def _keep_running(self) -> None:
        while not self._ending.wait(0.1):
            if self._run.process.poll() is not None:
                self._run.__exit__()
                try:
                    self._run = self._start()
                except RuntimeFailure as error:
                    self.problems.append(f"the application did not start again: {error}")
                    return

    def _is_kept_running(self) -> bool:
        """Whether the application runs, or will not run again."""
        return bool(self.problems) or self._run.process.poll() is None

    def _preload(self) -> None:
        """Give every preloaded key its state."""
        file = self.directory / "preloaded"
        directory = str(self._application.parent)
        with mock.patch.object(sys, "path", [directory, *sys.path]):
            application = importlib.import_module(self._application.stem)
        with file.open("wb") as entities:
            for number in range(self._keys):
                entity = application.Seen()
                entity.messages = PRELOADED
                key = application.key({"name": f"p{number}", "drawn": 0.0})
                entities.write(pickle.dumps((("seen", key), entity), protocol=5))
        subprocess.run(
            [
                *(sys.executable, "-m", "wallaroo", "state", "import", str(self._application)),
                *(str(file), "--format", "pickle"),
                *("--state-dir", str(self.state), "--partitions", str(WORKERS)),
            ],
            check=True,
        )
        file.unlink()

    def _send(self, stream: str, rate: int, names: Iterator[str]) -> None:
        try:
            with Sender(self.address, stream, timeout_s=PATIENCE_S) as sender:
                while not self._ending.wait(_BURST_S):
                    for name in itertools.islice(names, int(rate * _BURST_S)):
                        sender.send(self.ledger.next(name))
        except RuntimeFailure as error:
            self.problems.append(f"{stream}: {error}")

    def _spawn(self, function: object, *arguments: object) -> None:
        assert callable(function)
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)


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


def _kind(pid: int, command: str) -> str | None:
    """What a process of the application is, by its command line and its connections."""
    if " wallaroo.engine.realtime.agent" in command:  # it, and what it has forked
        kinds = {TO_FIRST_STAGE: "reader", TO_PARTITION: "worker", "": "agent"}
        return next(kind for name, kind in kinds.items() if not name or is_connected(pid, name))
    if " wallaroo gateway " in command:
        return "gateway"
    if "SparkSubmit" in command:
        return "java"
    if "pyspark.sql." in command:  # what asks for messages, and what is asked at the query's start
        return "planner"
    return "worker" if "pyspark" in command else None
