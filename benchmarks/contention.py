"""A fixed rate while other programs take all cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.latency import Latencies, Probe, times_at

_WINDOW_S = 5.0
_BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with it


@dataclass(frozen=True)
class Contended:
    """How a run went beside other programs."""

    programs: int
    """How many there were."""
    lowest: float
    """Outputs a second, in the five seconds that had fewest."""
    p50: float
    """Median latency, in milliseconds."""
    p99: float
    """99th percentile of latency, in milliseconds."""
    drained_s: float
    """Seconds from their end until all outputs were there."""


def contended(
    probe: Probe,
    rate: int,
    seconds: float,
    workers: int,
    scratch: Path,
) -> Contended:
    """Send the messages of *probe* at *rate* a second beside busy programs; see `at_rate`."""
    programs = (os.cpu_count() or 1) * 3 // 2
    times = times_at(probe, rate, seconds, workers, scratch, (), _busy(programs))
    out = [sent + taken for sent, taken in zip(times.sent, times.taken, strict=True)]
    windows = Counter(int((at - times.sent[0]) / _WINDOW_S) for at in out)
    whole = range(int(seconds / _WINDOW_S))
    found = Latencies.of(times.taken, times.cpu)
    return Contended(
        programs,
        min(windows[number] for number in whole) / _WINDOW_S,
        found.p50,
        found.p99,
        max(out) - times.sent[-1],
    )


@contextmanager
def _busy(programs: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(programs)]
    try:
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()
