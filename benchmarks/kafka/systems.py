"""The systems that are compared: each reads its own topics and writes to its own one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.kafka.broker import Broker

from benchmarks.kafka.ends import PARTITIONS, Feed, first_records, records_of
from benchmarks.loads import BENCHMARKS, Load
from benchmarks.peers.measured import environment
from benchmarks.running import Pass, cpu_seconds, said
from wallaroo.run.background_run import BackgroundRun

EXACTLY_ONCE, AT_LEAST_ONCE = GUARANTEES = "exactly-once", "at-least-once"
_APPLICATION = BENCHMARKS / "kafka" / "topics.py"
_PATIENCE_S = 120.0


class Stream:
    """The topics of one system, and a receiver of its outputs.

    Args:
        broker: The broker.
        load: What is written in each pass.
    """

    def __init__(self, broker: Broker, load: Load) -> None:
        self._broker, self._load = broker, load
        name = uuid.uuid4().hex[:8]
        self.inputs = [f"{name}-in-{number}" for number in range(len(load.inputs))]
        self.out = f"{name}-out"
        for topic in (*self.inputs, self.out):
            broker.make(topic, PARTITIONS)
        self._feed = Feed(broker.address, name)
        self.first = sum(len(records) for _, records in first_records(load, self.inputs))
        first_outputs = 0 if load.first else self.first
        outputs = load.outputs // (59 if load.unit == "bytes" else 1)
        self._receiver = started(
            *(sys.executable, "-m", "benchmarks.kafka.ends", broker.address, self.out),
            *(str(first_outputs), str(outputs)),
        )

    def begin(self) -> None:
        """Write the first records."""
        self._feed.write(first_records(self._load, self.inputs))
        self._feed.show()

    def fill(self) -> None:
        """Write the load; no system sees it."""
        self._feed.write(records_of(self._load, self.inputs))

    def measured(self) -> float:
        """Let it be seen; the seconds until all outputs can be read."""
        began = self._feed.show()
        if not (ended := said(self._receiver)):
            msg = f"the receiver of {self._load.name} has ended"
            raise RuntimeError(msg)
        return float(ended) - began

    def end(self) -> None:
        """Forget the topics."""
        self._receiver.communicate()
        for topic in (*self.inputs, self.out):
            self._broker.remove(topic)


class Ours:
    """`wallaroo run` between topics, with everything on.

    Args:
        broker: The broker.
        load: What is written in each pass.
        guarantee: One of `GUARANTEES`.
        workers: Worker processes.
        scratch: Where its state may be put.
    """

    def __init__(
        self, broker: Broker, load: Load, guarantee: str, workers: int, scratch: Path
    ) -> None:
        self._load = load
        self.stream = Stream(broker, load)
        self._background = BackgroundRun(
            [
                *("run", str(_APPLICATION), "--workers", str(workers)),
                *("--state-dir", str(scratch / f"state-{time.monotonic_ns()}"), "--"),
                *(load.name, broker.address, guarantee, self.stream.out, *self.stream.inputs),
            ]
        )

    def __enter__(self) -> Self:
        self._background.__enter__()
        self.stream.begin()
        for source, records in zip(
            self._load.sources, first_records(self._load, self.stream.inputs), strict=True
        ):
            self._background.wait_until_accepted(source, len(records[1]))
        self._background.wait_until_processed()
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self._background.stop()
        self._background.__exit__(*exc)
        self.stream.end()

    def measured(self) -> Pass:
        """One pass."""
        self.stream.fill()
        before = cpu_seconds(self._background.process.pid)
        seconds = self.stream.measured()
        after = cpu_seconds(self._background.process.pid)
        messages = self._load.messages
        spent = {name: (after[name] - before.get(name, 0.0)) * 1e6 / messages for name in after}
        return Pass(messages, seconds, spent)


def peer(
    module: str, broker: Broker, load: Load, guarantee: str, interval_s: float, cores: int | None
) -> Pass:
    """One pass of a peer, in a separate process.

    Args:
        module: `plain_kafka` or `quix_flow`.
        broker: The broker.
        load: What is written.
        guarantee: One of `GUARANTEES`.
        interval_s: Seconds between its commits.
        cores: How many cores it may use; None for all.
    """
    stream = Stream(broker, load)
    try:
        with peer_running(
            module, broker, load.name, stream, guarantee, interval_s, cores
        ) as process:
            stream.fill()
            before = cpu_seconds(process.pid)
            seconds = stream.measured()
            after = cpu_seconds(process.pid)
    finally:
        stream.end()
    spent = 1e6 * (sum(after.values()) - sum(before.values())) / load.messages
    return Pass(load.messages, seconds, {"python": spent})


@contextlib.contextmanager
def peer_running(
    module: str,
    broker: Broker,
    app: str,
    stream: Stream,
    guarantee: str,
    interval_s: float,
    cores: int | None,
) -> Iterator[subprocess.Popen[str]]:
    """A peer that has processed the first records of *stream*."""
    python = str(environment()) if module == "quix_flow" else sys.executable
    pinned = ["taskset", "-c", f"0-{cores - 1}"] if cores else []
    stream.begin()
    process = started(
        *(*pinned, python, "-m", f"benchmarks.peers.{module}", app, broker.address, guarantee),
        *(str(interval_s), str(stream.first), stream.out, *stream.inputs),
    )
    try:
        if said(process) != "ready":
            msg = f"{module} does not run"
            raise RuntimeError(msg)
        yield process
        process.communicate(timeout=_PATIENCE_S)
    finally:
        process.kill()


def started(*command: str) -> subprocess.Popen[str]:
    """A process of the benchmark, which prints lines."""
    paths = (BENCHMARKS.parent, BENCHMARKS.parent / "runtime")
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
    )
