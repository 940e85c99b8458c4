"""Milliseconds from socket to socket at a fixed rate."""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import streams
from benchmarks.throughput import APPS
from wallaroo.cli.background import BackgroundRun

_TICK_S = 0.005
_WARM_UP_S = 15.0


@dataclass(frozen=True)
class Latencies:
    """Latencies of a run, in milliseconds."""

    p50: float
    p99: float
    worst: float


def at_rate(rate: int, seconds: float, workers: int, scratch: Path) -> Latencies:
    """Send orders that are all rejected at *rate* a second; how long each result takes."""
    rejecting = streams.symbols()[0]
    sent: dict[bytes, float] = {}
    taken: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        arguments = [
            *("run", str(APPS / "market_spread"), "--in", "127.0.0.1:0,127.0.0.1:0"),
            *("--out", address, "--workers", str(workers), "--state-dir", str(scratch / "latency")),
        ]
        with BackgroundRun(arguments) as running:
            connection, _ = listener.accept()
            total = int(rate * (seconds + _WARM_UP_S))
            receiving = threading.Thread(target=_receive, args=(connection, total, sent, taken))
            receiving.start()
            host, port = running.sources["Orders"].rsplit(":", 1)
            with socket.create_connection((host, int(port))) as sender:
                _send(sender, rejecting, rate, total, sent)
                receiving.join()
            running.stop()
    steady = sorted(taken[int(rate * _WARM_UP_S) :])

    def percentile(part: float) -> float:
        return 1000 * steady[min(int(part * len(steady)), len(steady) - 1)]

    return Latencies(percentile(0.5), percentile(0.99), 1000 * steady[-1])


def _send(
    sender: socket.socket, symbol: bytes, rate: int, total: int, sent: dict[bytes, float]
) -> None:
    pack, started, number = streams.ORDER.pack, time.monotonic(), 0
    stamp = b"20171207-15:47:52.000"
    while number < total:
        due = min(total, int((time.monotonic() - started) * rate))
        names = [b"%06x" % n for n in range(number, due)]
        framed = [pack(53, 1, 1, 7, name, symbol, 100.0, 100.5, stamp) for name in names]
        now = time.monotonic()
        sent.update(dict.fromkeys(names, now))
        sender.sendall(b"".join(framed))
        number = due
        time.sleep(_TICK_S)


def _receive(
    connection: socket.socket, total: int, sent: dict[bytes, float], taken: list[float]
) -> None:
    rest, order_id = b"", struct.Struct(">9x6s44x")
    with connection:
        while len(taken) < total and (piece := connection.recv(1 << 18)):
            now, data = time.monotonic(), rest + piece
            whole = len(data) - len(data) % streams.RESULT_BYTES
            rest = data[whole:]
            taken += [now - sent.pop(name) for (name,) in order_id.iter_unpack(data[:whole])]
