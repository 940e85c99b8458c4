"""Runs of the world, one for each seed."""

from __future__ import annotations

import gc
import multiprocessing
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.gateway.simulation.world import World

WINDOWS = (
    "kill",
    "power failure",
    "query killed",
    "crash before a write",
    "crash before a sync",
    "crash during a sync",
    "crash during recovery",
    "crash in create",
    "crash in fdatasync",
    "crash in pwritev",
    "crash in rename",
    "crash in sync_directory",
    "changes applied",
    "committed after its end",
    "direct chunk",
    "killed with direct chunks",
    "output repeated",
    "segments let go",
    "write cut short",
    "log waited",
    "intake waited",
    "delivered from a full disk",
    "no room at a start",
)
"""What happens in some of `LEAST` seeds."""
LEAST = 2_000
_BATCH = 250
"""Seeds that a process runs at once."""
_REPORT_EVERY_S = 10.0


def simulate(seeds: Iterable[int], windows: Counter[str]) -> None:
    """Run the world with each of *seeds*, and count in *windows* what has happened."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            try:
                World(seed, patch, windows).run()
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise


def missing(windows: Counter[str]) -> list[str]:
    """What should have happened, and has not."""
    return [name for name in WINDOWS if not windows[name]]


def campaign(first: int, count: int, cores: int, say: Callable[[str], None]) -> bool:
    """Run *count* seeds from *first* on, until one fails, in a process for each core.

    Returns:
        Whether all was right, and everything has happened that should.
    """
    batches = [
        range(at, min(at + _BATCH, first + count)) for at in range(first, first + count, _BATCH)
    ]
    say(f"simulations of the gateway: {count:,} seeds from {first} on, on {cores} cores")
    windows: Counter[str] = Counter()
    done, reported = 0, (began := time.monotonic())
    with multiprocessing.Pool(cores, gc.freeze) as pool:
        for seeds, happened, failure in pool.imap_unordered(_run, batches):
            if failure:
                say(f"{failure}to replay it: python -m tests.chaos --seeds 1 --seed {seeds[0]}")
                return False
            windows += happened
            done += len(seeds)
            now = time.monotonic()
            if now - reported >= _REPORT_EVERY_S or done == count:
                reported = now
                say(f"{done:,} seeds, {done / (now - began):,.0f} a second")
    say(", ".join(f"{name}: {times:,}" for name, times in windows.most_common()))
    if count >= LEAST and (lacking := missing(windows)):
        say(f"never happened: {', '.join(lacking)}")
        return False
    return True


def _run(seeds: range) -> tuple[range, Counter[str], str]:
    """Run a batch: what has happened; the first seed that fails, and how, if one does."""
    windows: Counter[str] = Counter()
    for seed in seeds:
        try:
            simulate([seed], windows)
        except Exception:
            return range(seed, seed + 1), windows, traceback.format_exc()
    return seeds, windows, ""
