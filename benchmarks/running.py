"""An application of ours that runs, with a receiver, and is sent its load again and again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from benchmarks.ends import connected
from benchmarks.loads import Load
from wallaroo.run.background_run import BackgroundRun

_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Pass:
    """What one pass of a load took."""

    messages: int
    seconds: float
    cpu_us: dict[str, float]
    """Microseconds of processor time for a message, by the kind of process."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


class Running:
    """`wallaroo run` with everything on, its sinks connected to a lean receiver.

    Args:
        load: What is sent in each pass.
        workers: Worker processes.
        scratch: Where files and state may be put.
        out: Address of a receiver; none starts one that is as lean as it can be.
        options: More options of `wallaroo run`.
    """

    def __init__(
        self,
        load: Load,
        workers: int,
        scratch: Path,
        out: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._load = load
        self._scratch = scratch
        self._files = load.write_to(scratch)
        self._receiver = None if out else end("receive", load.unit, str(load.outputs))
        state = scratch / f"state-{load.name}-{workers}-{time.monotonic_ns()}"
        self._background = BackgroundRun(
            [
                *("run", str(load.app), "--out", out or said(self._receiver)),
                *("--workers", str(workers)),
                *("--in", ",".join(["127.0.0.1:0"] * len(load.inputs))),
                *("--state-dir", str(state), *options),
            ]
        )
        self._sent = 0

    def __enter__(self) -> Self:
        self._background.__enter__()
        for name, frames in self._load.first.items():
            with connected(self._background.sources[name]) as sender:
                sender.sendall(b"".join(frames))
            self._background.wait_until_accepted(name, len(frames))
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self._background.stop()
        self._background.__exit__(*exc)
        if self._receiver is not None:
            self._receiver.kill()
            self._receiver.communicate()

    @property
    def sources(self) -> list[str]:
        """Addresses of the sources."""
        return [self._background.sources[name] for name in self._load.sources]

    def tcp_to_tcp(self) -> Pass:
        """From the first byte sent to the last byte received."""
        before = cpu_seconds(self._background.process.pid)
        senders = self._senders()
        began = min(float(said(sender)) for sender in senders)
        ended = float(said(self._receiver))
        for sender in senders:
            sender.communicate()
        return self._passed(ended - began, before)

    def next_load(self, load: Load) -> None:
        """Send *load* from now on; each pass must have the outputs of the first load."""
        self._load, self._files = load, load.write_to(self._scratch)

    def send(self) -> None:
        """Send the load, and wait until it is in the hands of the gateway."""
        for sender in self._senders():
            sender.communicate()

    def drain(self) -> None:
        """Wait until all that was sent is processed."""
        client = self._background.client
        assert client is not None
        while client.status().backlog:
            time.sleep(_LOOK_EVERY_S)

    def journal_to_outbox(self) -> Pass:
        """What the engine takes for messages that are all in the journal."""
        with self.engine_paused():
            self.send()
            for name, count in zip(self._load.sources, self._load.counts, strict=True):
                first = len(self._load.first.get(name, ()))
                self._background.wait_until_accepted(name, first + self._sent * count)
            before = cpu_seconds(self._background.process.pid)
            began = time.monotonic()
        self.drain()
        passed = self._passed(time.monotonic() - began, before)
        said(self._receiver)
        return passed

    @contextmanager
    def engine_paused(self) -> Iterator[None]:
        """All processes but the gateway stand still, so that accepted messages wait."""
        run = self._background.process.pid
        engine = [p for p in tree(run) if p.pid != run and kind(p) != "gateway"]
        for process in engine:
            process.suspend()
        try:
            yield
        finally:
            for process in engine:
                with suppress(psutil.NoSuchProcess):  # Spark ends workers that it has no use for
                    process.resume()

    def memory_mb(self) -> dict[str, float]:
        """Proportional resident memory by the kind of process."""
        held: dict[str, float] = defaultdict(float)
        for process in tree(self._background.process.pid):
            held[kind(process)] += process.memory_full_info().pss / 2**20
        return dict(held)

    def cpu(self) -> dict[str, float]:
        """Processor time so far, in seconds, by the kind of process."""
        return cpu_seconds(self._background.process.pid)

    def idle_cpu(self, seconds: float) -> float:
        """Part of a core that all processes take while nothing is sent."""
        before = cpu_seconds(self._background.process.pid)
        time.sleep(seconds)
        after = cpu_seconds(self._background.process.pid)
        return (sum(after.values()) - sum(before.values())) / seconds

    def _senders(self) -> list[subprocess.Popen[str]]:
        self._sent += 1
        pairs = zip(self.sources, self._files, strict=True)
        return [end("send", to, str(file)) for to, file in pairs]

    def _passed(self, seconds: float, before: dict[str, float]) -> Pass:
        after = cpu_seconds(self._background.process.pid)
        messages = self._load.messages
        spent = {name: (after[name] - before.get(name, 0.0)) * 1e6 / messages for name in after}
        return Pass(messages, seconds, spent)


def tree(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def kind(process: psutil.Process) -> str:
    """What a process of ours is: `run`, `gateway`, `java` or `python`; none if it has ended."""
    try:
        command = process.cmdline()
    except psutil.NoSuchProcess:
        return ""
    if "java" in process.name():
        return "java"
    if "gateway" in command[:6]:
        return "gateway"
    return "run" if "run" in command[:6] else "python"


def cpu_seconds(pid: int) -> dict[str, float]:
    """Processor time by the kind of process, of a tree and of what has ended in it."""
    spent: dict[str, float] = defaultdict(float)
    for process in tree(pid):
        try:
            times, name = process.cpu_times(), kind(process)
        except psutil.NoSuchProcess:
            continue
        spent[name] += times.user + times.system
        if name == "python":  # the daemon's ended workers
            spent[name] += times.children_user + times.children_system
    return spent


def end(*arguments: str) -> subprocess.Popen[str]:
    """One end of a stream, in a separate process."""
    command = [sys.executable, "-m", "benchmarks.ends", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str] | None) -> str:
    """The next line that *process* prints."""
    assert process is not None
    assert process.stdout is not None
    return process.stdout.readline().strip()
