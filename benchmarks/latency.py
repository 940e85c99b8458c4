"""Milliseconds from socket to socket at a fixed rate."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks import loads, streams
from benchmarks.arrivals import Pattern, due
from benchmarks.loads import Load
from benchmarks.running import Running, said

_WARM_UP_S = 10.0
_STRIDE = 149
"""Successive orders are of symbols that lie this far apart in the list."""


@dataclass(frozen=True)
class Latencies:
    """Latencies of a run, in milliseconds."""

    p50: float
    p99: float
    p999: float
    worst: float
    cpu: Mapping[str, float]
    """Cores that the processes took, by their kind; `sender` is the benchmark's."""

    @classmethod
    def of(cls, taken: Sequence[float], cpu: Mapping[str, float]) -> Latencies:
        """Those of messages that took so many seconds each."""
        steady = sorted(taken)

        def percentile(part: float) -> float:
            return 1000 * steady[min(int(part * len(steady)), len(steady) - 1)]

        worst = 1000 * steady[-1]
        return cls(percentile(0.5), percentile(0.99), percentile(0.999), worst, cpu)


@dataclass(frozen=True)
class Probe:
    """Messages that all have an output, which says which message it is of."""

    load: Load
    """Its application; it is sent once before, to warm up and to fill the state."""
    source: int
    """Index of the source that is probed."""
    message: Callable[[int], bytes]
    """The framed message with a number."""
    output: struct.Struct
    """A framed output, of which the message's number is unpacked."""


def orders() -> Probe:
    """Orders of Market Spread, of all symbols in turn, which are all rejected."""
    listed, pack, unnamed = streams.symbols(), streams.ORDER.pack, b"      "

    def order(number: int) -> bytes:
        symbol = listed[number * _STRIDE % len(listed)]
        return pack(53, 1, 1, number, unnamed, symbol, 100.0, 100.5, streams.TIME)

    return Probe(loads.all_rejected(100_000), 0, order, struct.Struct(">5xI50x"))


def few_keys(idle_keys: int) -> Probe:
    """Messages of a hundred keys, beside *idle_keys* that nothing is sent for."""
    pack = streams.KEYED.pack
    return Probe(
        loads.each_key_once(idle_keys),
        0,
        lambda number: pack(13, number % 100, 1, number),
        struct.Struct(">4xI8x"),
    )


@dataclass(frozen=True)
class Times:
    """When each message was sent, and how long its output took, in seconds."""

    sent: Sequence[float]
    taken: Sequence[float]
    cpu: Mapping[str, float]
    """Cores that the processes took, by their kind."""


def at_rate(
    probe: Probe,
    rate: int,
    seconds: float,
    workers: int,
    scratch: Path,
    options: Sequence[str] = (),
    pattern: Pattern = "independent",
) -> Latencies:
    """Send the messages of *probe* at *rate* a second; how long each output takes.

    Args:
        probe: What is sent.
        rate: Messages a second.
        seconds: How long, after some time that warms up.
        workers: Worker processes.
        scratch: Where files and state may be put.
        options: More options of `wallaroo run`.
        pattern: How messages arrive.
    """
    times = times_at(probe, rate, seconds, workers, scratch, options, pattern=pattern)
    return Latencies.of(times.taken, times.cpu)


def times_at(
    probe: Probe,
    rate: int,
    seconds: float,
    workers: int,
    scratch: Path,
    options: Sequence[str] = (),
    beside: AbstractContextManager[object] | None = None,
    pattern: Pattern = "independent",
) -> Times:
    """As `at_rate`, message by message; *beside* is entered after the warm-up."""
    after = due(pattern, rate, _WARM_UP_S + seconds)
    warm = bisect_left(after, _WARM_UP_S)
    framed = scratch / "arrivals.bin"
    framed.write_bytes(b"".join(map(probe.message, range(len(after)))))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        out = f"127.0.0.1:{listener.getsockname()[1]}"
        with Running(probe.load, workers, scratch, out, options) as running:
            connection, _ = listener.accept()
            with connection:
                running.send()
                _skip(connection, probe.load.outputs)
                size = framed.stat().st_size // len(after)
                to = running.sources[probe.source]
                sender = _sender(to, framed, size, pattern, rate, _WARM_UP_S + seconds)
                began = float(said(sender))
                arrivals = _Arrivals(connection, probe.output, len(after))
                arrivals.take(warm)
                with beside or nullcontext():
                    before = running.cpu()
                    arrivals.take(len(after))
                    spent = running.cpu()
                share = float(said(sender))
                sender.communicate()
    cpu = {kind: (used - before.get(kind, 0.0)) / seconds for kind, used in spent.items()}
    sent = [began + at for at in after[warm:]]
    taken = [end - start for start, end in zip(sent, arrivals.at[warm:], strict=True)]
    return Times(sent, taken, {**cpu, "sender": share})


def _sender(address: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.arrivals", address, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _skip(connection: socket.socket, size: int) -> None:
    while size and (piece := connection.recv(min(size, 1 << 18))):
        size -= len(piece)


class _Arrivals:
    """When outputs arrive: *at* is the time of each, by its message's number."""

    def __init__(self, connection: socket.socket, output: struct.Struct, count: int) -> None:
        self.at = [0.0] * count
        self._connection, self._output = connection, output
        self._rest, self._taken = b"", 0

    def take(self, count: int) -> None:
        """Receive until there were *count* outputs in all."""
        size = self._output.size
        while self._taken < count and (piece := self._connection.recv(1 << 18)):
            now, data = time.monotonic(), self._rest + piece
            whole = len(data) - len(data) % size
            self._rest = data[whole:]
            for (number,) in self._output.iter_unpack(data[:whole]):
                self.at[number] = now
            self._taken += whole // size
