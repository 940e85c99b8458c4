"""A running application with senders, a receiver, and whoever starts it again when it ends."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self
from unittest import mock

from tests.chaos.ledger import Ledger
from tests.chaos.logs import SETTLE_S, TICK_S, FilesTraffic, append
from tests.chaos.network import DRIVER_SIDE, GATEWAY_SIDE, Network
from tests.chaos.parts import Event, Part
from tests.chaos.receiver import Receiver
from tests.chaos.shim import Machine, compiled
from tests.chaos.traffic import traffic_of
from tests.chaos.turn import APART, WITH_LOGS, WITH_TIME, Turn
from tests.helpers import wait_until
from wallaroo.api.places import Place
from wallaroo.client import Sender
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.run.gateway_process import reserved_ports
from wallaroo.run.state.dead_letters import dead_letter_actions
from wallaroo.wire.framing import Framing

KILL, STOP, GO_ON = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
CLOCK = Path(__file__).parent / "clock"
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
"""Pace of the chunks: epochs end once a second."""
BURST = 8
"""Messages that a sender sends at once."""
_START_S = 20.0
"""Time for a process to start that is about to."""
_LOOK_EVERY_S = 0.05
_SIGNAL_S = 0.05
"""Time in which a process that has passed a place is surely sent its signal."""
FUNCTION_TIMEOUT_S = 5
PATIENCE_S = 600.0
"""How long to wait for what must happen; long, because other programs may use the machine."""


class System:
    """The application, its senders and its receiver; a context manager.

    Args:
        directory: For everything that it writes.
        turn: Which application it is, and what runs it.
        keys: Keys that have state before it starts; only for `wallaroo run`.
        rate: Messages a second of each sender.
        flood_s: How long a flood lasts.
    """

    def __init__(
        self, directory: Path, turn: Turn, *, keys: int = 0, rate: int = RATE, flood_s: float = 60.0
    ) -> None:
        self.flood_s = flood_s
        self.turn = turn
        self._keys, self._rate = keys, rate
        self.directory = directory
        self.state = directory / "state"
        apart = turn.shape == APART
        self.gateway_files = directory / "gateway" if apart else self.state
        """Directory of journal and outbox."""
        self.faults = directory / "faults"
        self.faults.mkdir()
        self.logs = [directory / name for name in ("0", "1")]
        """What an application reads that reads files."""
        for log in self.logs:
            log.touch()
        self.traffic = traffic_of(turn.application)
        self.ledger = Ledger(preloaded(keys), self.traffic.entries)
        self.receiver = Receiver(self.ledger)
        library = compiled(directory)
        self.machines = {
            name: Machine(directory / name, library)
            for name in (["the gateway", "the driver"] if apart else ["the machine"])
        }
        """Those that the application runs on, by what is on them."""
        self.network: Network | None = None
        """Between driver and gateway; None if they are on one machine."""
        self.problems: list[str] = []
        """What ended senders for good, and what else is wrong."""
        self.errors: Counter[str] = Counter()
        """How often the application logged what, as errors."""
        self._events: deque[Event] = deque(maxlen=15)
        self._ending = threading.Event()
        self._stack = contextlib.ExitStack()
        self._threads: list[threading.Thread] = []
        self._parts: list[Part] = []
        """The gateway, if it is apart, and what has the driver."""

    def __enter__(self) -> Self:
        for machine in self.machines.values():
            self._stack.callback(machine.close)
        source = TCPSource("Chaos", Framing(4, ">I"), bytes, Place("", 0), "127.0.0.1", 0)
        self.port, self.second_port, *inner = self._stack.enter_context(
            reserved_ports([source] * 4)
        )
        self.address = f"127.0.0.1:{self.port}"
        """Of the source; an application with a second one has `second_port` for it."""
        if self._keys:
            self._preload()
        self._parts = self._apart(*inner) if self.turn.shape == APART else [self._together()]
        for part in self._parts:
            if not part.wait_for_start():
                msg = part.problem or f"wallaroo {part.name} was not ready in time"
                told = "\n  ".join([msg, *self.events])
                self.__exit__()
                raise RuntimeFailure(told)
        for number in range(STREAMS):
            names = [f"s{number}k{key}" for key in range(KEYS)]
            self._spawn(self._send, f"stream {number}", self._rate, itertools.cycle(names))
        if isinstance(self.traffic, FilesTraffic):
            self._spawn(self._write, self.traffic)
        if self._keys:
            chance = random.Random(1)
            known = (f"p{chance.randrange(self._keys)}" for _ in itertools.count())
            self._spawn(self._send, "preloaded", PRELOADED_RATE, known)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for part in self._parts:
            part.kill()
        self.receiver.close()
        self._stack.close()

    @property
    def _stops_early(self) -> bool:
        """Whether a stop does not wait for all outputs.

        Only `wallaroo run` waits for those that are due, and for none that come with time.
        """
        return self.network is not None or self.turn.application in WITH_TIME

    def finish(self) -> int:
        """End the senders, then the application in good order; its exit code, the highest."""
        wait_until(self._is_kept_running, "the start after the last fault", PATIENCE_S)
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        if self._stops_early:
            self.ledger.wait_for_all(PATIENCE_S)
        return max(abs(part.stop()) for part in reversed(self._parts))

    @property
    def events(self) -> list[str]:
        """The last log events of the application, in words."""
        return [
            " ".join(f"{key}={value}" for key, value in event.items() if key != "timestamp")
            for event in list(self._events)
        ]

    @property
    def driver_starts(self) -> int:
        """How often a driver was started."""
        return self._parts[-1].starts

    @property
    def starts(self) -> int:
        """How often anything was started that the application cannot start itself."""
        return sum(part.starts for part in self._parts)

    @property
    def wrong(self) -> list[str]:
        """What is wrong beside outputs."""
        ended = [part.problem for part in self._parts if part.problem is not None]
        return [*self.problems, *ended, *self.receiver.problems]

    @property
    def commits(self) -> int:
        """How often Spark has committed the state."""
        folder = self.state / "checkpoint" / "commits"
        return max((int(file.name) for file in folder.glob("[0-9]*")), default=-1) + 1

    def processes(self, kind: str) -> list[int]:
        """Numbers of the processes of a kind: driver, gateway, java, reader, worker.

        Those of a real-time query are its reader and its workers.
        """
        if kind == "driver":
            return [self._parts[-1].pid]
        if kind == "gateway" and len(self._parts) > 1:
            return [self._parts[0].pid]
        return self._parts[-1].processes(kind)

    def started(self, kind: str) -> list[int]:
        """The same, as soon as there is one: the query may be about to start."""
        give_up = time.monotonic() + _START_S
        while not (pids := self.processes(kind)) and time.monotonic() < give_up:
            time.sleep(_LOOK_EVERY_S)
        return pids

    def signal(self, number: int, *pids: int) -> None:
        """Send a signal to each of *pids* that is still there."""
        killed = [(part, part.pid) for part in self._parts if part.pid in pids and number == KILL]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        for part, pid in killed:
            part.wait_for_end(pid, PATIENCE_S)

    def reach(
        self,
        place: str,
        victim: int = 0,
        delay_ms: int = 0,
        number: int = KILL,
        meanwhile: Callable[[], object] = lambda: None,
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
                with dead_letter_actions(self.gateway_files) as desk:
                    return len(desk.letters(Choice(), 1_000_000))
            except (RuntimeFailure, UsageError):  # it is just being started
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.5)

    def _together(self) -> Part:
        """`wallaroo run`, which does it all."""
        (machine,) = self.machines.values()
        arguments = [
            *("run", str(self.turn.file), *self._traffic, *self._query),
            *("--state-dir", str(self.state), "--", *self._own_arguments),
        ]
        return Part(arguments, self._environment(machine), self._note)

    def _apart(self, port: int, chunks_port: int) -> list[Part]:
        """`wallaroo gateway` and `wallaroo driver`, as on a cluster."""
        self.network = Network([port, chunks_port])
        self._stack.callback(self.network.close)
        token = self.directory / "token"
        token.touch(mode=0o600)
        token.write_text("the token of the chaos tests")
        gateway = [
            *("gateway", str(self.turn.file), *self._traffic, "--token-file", str(token)),
            *("--listen", f"{GATEWAY_SIDE}:{port}", "--chunks-port", str(chunks_port)),
            *("--state-dir", str(self.gateway_files), "--", *self._own_arguments),
        ]
        driver = [
            *("driver", str(self.turn.file), *self._addresses, *self._query),
            *("--gateway", f"{DRIVER_SIDE}:{port}", "--token-file", str(token)),
            *("--master", f"local[{WORKERS}]", "--state-dir", str(self.state)),
            *("--", *self._own_arguments),
        ]
        machines = [self.machines["the gateway"], self.machines["the driver"]]
        return [
            Part(arguments, self._environment(machine), self._note)
            for arguments, machine in zip([gateway, driver], machines, strict=True)
        ]

    @property
    def _own_arguments(self) -> list[str]:
        """The arguments of the application itself."""
        return ["--logs", str(self.directory)] if self.turn.application in WITH_LOGS else []

    @property
    def _addresses(self) -> list[str]:
        return ["--in", self.address, "--out", self.receiver.address]

    @property
    def _traffic(self) -> list[str]:
        limits = ["--max-connections", "20000", "--journal-limit-gib", str(JOURNAL_GIB)]
        return [*self._addresses, *limits]

    @property
    def _query(self) -> list[str]:
        return [
            *("--workers", str(WORKERS), "--partitions", str(WORKERS)),
            *("--function-timeout", str(FUNCTION_TIMEOUT_S)),
        ]

    def _environment(self, machine: Machine) -> dict[str, str]:
        return {
            **os.environ,
            "WALLAROO_FAULTS": str(self.faults),
            "WALLAROO_PACE": PACE,
            "PYTHONPATH": os.pathsep.join([str(CLOCK), os.environ.get("PYTHONPATH", "")]),
            **machine.environment,
        }

    def _note(self, event: Event) -> None:
        """Count errors, and lines that are no log events, such as tracebacks."""
        self._events.append(event)
        if event.get("level") not in ("debug", "info", "warning"):
            self.errors[
                " ".join(str(event.get(key, "")) for key in ("event", "error", "line"))[:120]
            ] += 1

    def _is_kept_running(self) -> bool:
        """Whether the application runs, or will not run again."""
        return bool(self.wrong) or all(part.runs for part in self._parts)

    def _preload(self) -> None:
        """Give every preloaded key its state."""
        file = self.directory / "preloaded"
        directory = str(self.turn.file.parent)
        with mock.patch.object(sys, "path", [directory, *sys.path]):
            application = importlib.import_module(self.turn.file.stem)
        with file.open("wb") as entities:
            for number in range(self._keys):
                entity = application.Seen()
                entity.messages = PRELOADED
                key = application.key({"name": f"p{number}", "drawn": 0.0})
                entities.write(pickle.dumps((("seen", key), entity), protocol=5))
        subprocess.run(
            [
                *(sys.executable, "-m", "wallaroo", "state", "import", str(self.turn.file)),
                *(str(file), "--format", "pickle"),
                *("--state-dir", str(self.state), "--partitions", str(WORKERS)),
            ],
            check=True,
        )
        file.unlink()

    def _send(self, stream: str, rate: int, names: Iterator[str]) -> None:
        try:
            with Sender(self.address, stream, timeout_s=PATIENCE_S) as sender:
                while not self._ending.wait(BURST / rate):
                    for name in itertools.islice(names, BURST):
                        sender.send(self.traffic.message(self.ledger, name)[1])
        except RuntimeFailure as error:
            self.problems.append(f"{stream}: {error}")

    def _write(self, traffic: FilesTraffic) -> None:
        """Write one tick after the other to the logs; in the end, close what is open."""
        while not self._ending.wait(TICK_S):
            append(traffic.tick(self.ledger), self.logs)
        time.sleep(SETTLE_S)
        append(traffic.close(), self.logs)

    def _spawn(self, function: object, *arguments: object) -> None:
        assert callable(function)
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)


def preloaded(keys: int) -> Callable[[str], int]:
    """How many messages a key has seen before the first one, if *keys* have state at the start."""
    names = frozenset(f"p{number}" for number in range(keys))
    return lambda key: PRELOADED if key in names else 0
