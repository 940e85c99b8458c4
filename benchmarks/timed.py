"""Sessions and timers of few and of a million keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import loads
from benchmarks.figures import FEW_KEYS, Figure, Settings, figure_of
from benchmarks.running import Pass, Running

_WAYS = {"session windows": (), "timers of a state": ("--", "timers")}


def timed(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Sessions of two messages, by windows and by timers of a state."""
    for way, options in _WAYS.items():
        found: list[Figure] = []
        memory: list[float] = []
        for keys in (FEW_KEYS, settings.many_keys):
            what = f"{way} of {keys:,} keys, TCP to TCP"
            passes, held = _passes(settings, keys, scratch, options)
            found.append(figure_of(what, passes))
            memory.append(held)
            yield found[-1]
        ratio = found[-1].value / found[0].value
        yield Figure(f"{way}: {settings.many_keys:,} keys against {FEW_KEYS}", ratio, "ratio")
        more = (memory[-1] - memory[0]) * 2**20 / (settings.many_keys - FEW_KEYS)
        yield Figure(f"{way}: memory of the Python processes for a key", more, "bytes")


def _passes(
    settings: Settings, keys: int, scratch: Path, options: tuple[str, ...]
) -> tuple[list[Pass], float]:
    """Passes behind one that warms up, and the memory of the Python processes after them, in MB."""
    rounds = max(1, settings.timed // (2 * keys)) * 2
    turns = [range(at, at + rounds) for at in range(2, 2 + (settings.passes + 1) * rounds, rounds)]
    passes: list[Pass] = []
    load = loads.sessions(keys, turns[0])
    with Running(load, settings.workers, scratch, options=options) as running:
        running.next_load(loads.sessions(keys, range(2)))
        running.send()
        running.drain()
        for turn in turns:
            running.next_load(loads.sessions(keys, turn))
            passes.append(running.tcp_to_tcp())
        return passes[1:], running.memory_mb()["python"]
