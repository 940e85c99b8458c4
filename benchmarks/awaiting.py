"""An async step beside plain asyncio, which makes the same calls."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import loads
from benchmarks.figures import Figure, Settings, figure_of, median_of
from benchmarks.peers import measured as peers
from benchmarks.running import Pass, Running

_STYLES = {"plain asyncio": "limited", "plain asyncio without a time limit": "unlimited"}


def async_steps(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Calls that wait 5 ms, 1,000 at a time, here and in plain asyncio, in turns."""
    load = loads.asked(settings.asked)
    ours: list[Pass] = []
    plain: dict[str, list[float]] = {what: [] for what in _STYLES}
    with Running(load, settings.workers, scratch) as running:
        for number in range(settings.passes + 1):
            passed = running.tcp_to_tcp()
            if number:  # the first one warms up
                ours.append(passed)
            for what, style in _STYLES.items():
                plain[what].append(peers.plain_asyncio(load, style, scratch))
    for what, rates in plain.items():
        yield median_of(f"calls of 5 ms, {what}", rates, "messages/s")
    figure = figure_of("calls of 5 ms, TCP to TCP", ours)
    yield figure
    for what, rates in plain.items():
        ratio = figure.value / statistics.median(rates)
        yield Figure(f"calls of 5 ms, against {what}", ratio, "ratio")
