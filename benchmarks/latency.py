"""Milliseconds from socket to socket at a fixed rate."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks import loads, streams
from benchmarks.ends import connected
from benchmarks.loads import Load
from benchmarks.running import Running

_TICK_S = 0.005
_WARM_UP_S = 10.0


@dataclass(frozen=True)
class Latencies:
    """Latencies of a run, in milliseconds."""

    p50: float
    p99: float
    p999: float
    worst: float
    cpu: Mapping[str, float]
    """Cores that the processes took, by their kind."""


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
    """Orders of Market Spread that are all rejected."""
    rejecting, pack, unnamed = streams.symbols()[1], streams.ORDER.pack, b"      "

    def order(number: int) -> bytes:
        return pack(53, 1, 1, number, unnamed, rejecting, 100.0, 100.5, streams.TIME)

    return Probe(loads.market_spread(100_000), 0, order, struct.Struct(">5xI50x"))


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
) -> Latencies:
    """Send the messages of *probe* at *rate* a second; how long each output takes.

    Args:
        probe: What is sent.
        rate: Messages a second.
        seconds: How long, after some time that warms up.
        workers: Worker processes.
        scratch: Where files and state may be put.
        options: More options of `wallaroo run`, such as the engine.
    """
    times = times_at(probe, rate, seconds + _WARM_UP_S, workers, scratch, options)
    steady = sorted(times.taken[int(rate * _WARM_UP_S) :])

    def percentile(part: float) -> float:
        return 1000 * steady[min(int(part * len(steady)), len(steady) - 1)]

    return Latencies(
        percentile(0.5), percentile(0.99), percentile(0.999), 1000 * steady[-1], times.cpu
    )


def times_at(
    probe: Probe,
    rate: int,
    seconds: float,
    workers: int,
    scratch: Path,
    options: Sequence[str] = (),
    beside: AbstractContextManager[object] | None = None,
) -> Times:
    """As `at_rate`, message by message; *beside* is entered when sending begins."""
    total = int(rate * seconds)
    sent, taken = [0.0] * total, [0.0] * total
    with socket.create_server(("127.0.0.1", 0)) as listener:
        out = f"127.0.0.1:{listener.getsockname()[1]}"
        with Running(probe.load, workers, scratch, out, options) as running:
            connection, _ = listener.accept()
            with connection:
                running.send()
                _skip(connection, probe.load.outputs)
                arguments = (connection, probe.output, sent, taken)
                receiving = threading.Thread(target=_receive, args=arguments)
                receiving.start()
                with connected(running.sources[probe.source]) as sender:
                    # else the system holds messages back until those before are acknowledged
                    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    before = running.cpu()
                    with beside or nullcontext():
                        _send(sender, probe.message, rate, sent)
                    receiving.join()
                    after = running.cpu()
    cpu = {kind: (spent - before.get(kind, 0.0)) / seconds for kind, spent in after.items()}
    return Times(sent, taken, cpu)


def _send(
    sender: socket.socket, message: Callable[[int], bytes], rate: int, sent: list[float]
) -> None:
    total, started, number = len(sent), time.monotonic(), 0
    while number < total:
        due = min(total, int((time.monotonic() - started) * rate))
        framed = b"".join(map(message, range(number, due)))
        sent[number:due] = [time.monotonic()] * (due - number)
        sender.sendall(framed)
        number = due
        time.sleep(_TICK_S)


def _skip(connection: socket.socket, size: int) -> None:
    while size and (piece := connection.recv(min(size, 1 << 18))):
        size -= len(piece)


def _receive(
    connection: socket.socket, output: struct.Struct, sent: list[float], taken: list[float]
) -> None:
    rest, missing = b"", len(sent)
    while missing > 0 and (piece := connection.recv(1 << 18)):
        now, data = time.monotonic(), rest + piece
        whole = len(data) - len(data) % output.size
        rest = data[whole:]
        for (number,) in output.iter_unpack(data[:whole]):
            taken[number] = now - sent[number]
        missing -= whole // output.size
