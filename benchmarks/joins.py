"""A join of two streams beside Bytewax."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import loads
from benchmarks.figures import Figure, Settings, figure_of, median_of, ratio_of
from benchmarks.peers import measured as peers
from benchmarks.running import Pass, Running

_OPERATOR, _STATEFUL = "its join", "a stateful_batch"
_FLOWS = {_OPERATOR: "joining", _STATEFUL: "joining_by_hand"}


def joins(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Each trade with the last price of its symbol, in turns."""
    load = loads.joined(settings.joined)
    ours: list[Pass] = []
    beside: dict[str, list[float]] = {}
    with Running(load, settings.workers, scratch) as running:
        running.tcp_to_tcp()
        for _ in range(settings.passes):
            ours.append(running.tcp_to_tcp())
            for how, flow in _FLOWS.items():
                for workers in sorted({1, settings.workers}):
                    name = f"Bytewax, {how}, workers: {workers}"
                    rate = peers.bytewax(load, workers, scratch, flow)
                    beside.setdefault(name, []).append(rate)
    yield figure_of("table join, TCP to TCP", ours)
    for name, rates in beside.items():
        yield median_of(f"table join, {name}", rates, "messages/s")
        yield ratio_of(f"table join, ours against {name}", [one.rate for one in ours], rates)
