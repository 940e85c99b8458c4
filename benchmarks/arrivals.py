"""Sends messages at scheduled times, in a separate process.

    python -m benchmarks.arrivals HOST:PORT FILE SIZE PATTERN RATE SECONDS

sends the messages of FILE, of SIZE bytes each, at the times of the pattern. It prints the clock at
the first time (CLOCK_MONOTONIC, which processes share), and at the end the part of a core that it
took. Latency counts from the scheduled time of a message, so a delayed sender hides nothing.
"""

from __future__ import annotations

import itertools
import random
import socket
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from benchmarks.ends import connected

Pattern = Literal["independent", "ticks"]
"""*independent*: gaps are drawn, as between the messages of many senders (a Poisson process).
*ticks*: all of 5 ms at once, as from a sender that collects."""
_TICK_S = 0.005
_SEED = 7


def due(pattern: Pattern, rate: int, seconds: float) -> Sequence[float]:
    """The scheduled time of each message, in seconds after the first; the same in every process.

    Example:
        >>> due("ticks", 400, 0.01)
        [0.0, 0.0, 0.005, 0.005]
    """
    count = int(rate * seconds)
    if pattern == "ticks":
        return [int(number / rate / _TICK_S) * _TICK_S for number in range(count)]
    draw = random.Random(_SEED).expovariate
    return list(itertools.accumulate((draw(rate) for _ in range(count - 1)), initial=0.0))


def send_on_time(times: Sequence[float], send: Callable[[int, int], object]) -> None:
    """Send messages at their scheduled *times*, by calls of `send(FIRST, END)`.

    Those that are late go out together. Prints when that began, and the part of a core it took.
    """
    used, began, number = time.process_time(), time.monotonic(), 0
    print(began, flush=True)
    while number < len(times):
        now = time.monotonic() - began
        ready = bisect_right(times, now, number)
        if ready == number:
            time.sleep(times[number] - now)
            continue
        send(number, ready)
        number = ready
    print((time.process_time() - used) / (time.monotonic() - began), flush=True)


def send(address: str, file: str, size: int, times: Sequence[float]) -> None:
    """Send each message of *file* at its scheduled time."""
    data = memoryview(Path(file).read_bytes())
    with connected(address) as connection:
        # else the system holds messages back until those before are acknowledged
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send_on_time(times, lambda first, end: connection.sendall(data[first * size : end * size]))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


if __name__ == "__main__":
    address, file, size, pattern, rate, seconds = sys.argv[1:]
    chosen: Pattern = "ticks" if pattern == "ticks" else "independent"
    send(address, file, int(size), due(chosen, int(rate), float(seconds)))
