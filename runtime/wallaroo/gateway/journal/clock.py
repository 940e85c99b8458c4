"""The clock by which messages arrive and windows close: wall time that no jump disturbs.

Windows measure how long a key has been silent by the times that the journal stores, so a wall clock
that jumps a day ahead would close a day's windows at once and make the messages of the next day
late. `SteadyClock` therefore advances at the pace of the time that passes since the machine was
booted, and takes from the wall clock only what an honest one may correct.
"""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import structlog

ALLOWANCE_NS = 1_000_000_000
"""How far the wall clock may step ahead, at most, to be followed at once."""
_SLEW = 100
"""A greater difference, in either direction, is made up for at one part in this number."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Also counts the time for which the machine is suspended."""

log = structlog.get_logger("wallaroo.gateway")


class Uptime(NamedTuple):
    """How long the machine has been running."""

    boot: int
    """Number of this start of the machine, at random; 0 if that is not known."""
    ns: int
    """Nanoseconds since then."""


def uptime() -> Uptime:
    """The uptime of this machine."""
    return Uptime(_boot(), time.clock_gettime_ns(_CLOCK))


@functools.cache
def _boot() -> int:
    try:
        return uuid.UUID(_BOOT_ID.read_text().strip()).int >> 65  # an integer of SQLite
    except (OSError, ValueError):
        return 0


class Reading(NamedTuple):
    """What the clock showed, to continue from after a restart."""

    time_ns: int
    """Nanoseconds since the Unix epoch."""
    uptime: Uptime
    """When it did."""


class SteadyClock:
    """A clock that never goes back, stands still or jumps, whatever the wall clock does.

    Args:
        wall: Returns the wall clock, in nanoseconds since the Unix epoch.
        uptime: Returns how long the machine has been running.
        last: What was stored last; None for a new journal.

    Example:
        >>> at = {"wall": 10**18, "up": 0}
        >>> clock = SteadyClock(lambda: at["wall"], lambda: Uptime(7, at["up"]))
        >>> at["up"] += 10 * 10**9  # and half a second less on the wall clock
        >>> at["wall"] += 10 * 10**9 - 10**9 // 2
        >>> (clock.now() - 10**18) / 1e9
        9.9
    """

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        uptime: Callable[[], Uptime] = uptime,
        last: Reading | None = None,
    ) -> None:
        self._wall = wall
        self._uptime = uptime
        self._lock = threading.Lock()
        self._is_off = False
        self._budget_ns = ALLOWANCE_NS
        self.resume(last)

    def resume(self, last: Reading | None) -> None:
        """Continue from what was stored *last*; None for a new journal."""
        up = self._uptime()
        self._up_ns = up.ns
        if last is not None and up.boot and last.uptime.boot == up.boot:
            # the machine counts the time while the gateway does not run
            self._now_ns = last.time_ns
            self._up_ns = min(last.uptime.ns, up.ns)
        else:  # only the wall clock can tell how long it took to start the machine
            self._now_ns = max(self._wall(), 0 if last is None else last.time_ns)

    def now(self) -> int:
        """The time, in nanoseconds since the Unix epoch."""
        return self.read().time_ns

    def read(self) -> Reading:
        """The time, to be stored."""
        with self._lock:
            (boot, up_ns), wall = self._uptime(), self._wall()
            passed = max(0, up_ns - self._up_ns)
            self._up_ns = max(up_ns, self._up_ns)
            ahead = wall - self._now_ns - passed
            self._budget_ns = min(ALLOWANCE_NS, self._budget_ns + passed // _SLEW)
            step = min(ahead, self._budget_ns) if ahead > 0 else max(ahead, -(passed // _SLEW))
            self._budget_ns -= max(0, step)
            self._now_ns += passed + step
            self._note(ahead - step)
            return Reading(self._now_ns, Uptime(boot, self._up_ns))

    def _note(self, off_ns: int) -> None:
        is_off = abs(off_ns) > (ALLOWANCE_NS // 2 if self._is_off else ALLOWANCE_NS)
        if is_off and not self._is_off:  # once for each jump
            log.warning(
                "clock jumped",
                by_s=round(off_ns / 1e9, 3),
                note="windows close by the time that passes; the difference is made up for slowly",
            )
        elif self._is_off and not is_off:
            log.info("clock is right again")
        self._is_off = is_off
