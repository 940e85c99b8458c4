"""Standstills of this process, in which nobody can hear of a source: they are no silence of it."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable

STANDSTILL_S = 2.0
"""Seconds between two looks at the clock after which the process is taken to have stood still. A
source that waits for another one looks more often."""
_MOST = 100
"""Standstills that are remembered."""


class Standstills:
    """Measures time without standstills; for any thread.

    A process stands still while it is stopped, or its machine is suspended.

    Args:
        clock: Returns seconds, of a clock that does not jump.

    Example:
        >>> times = iter([0.0, 1.0, 2.0, 80.0, 81.0])
        >>> standstills = Standstills(lambda: next(times))
        >>> [standstills.passed(1.0, standstills.now()) for _ in range(4)]
        [0.0, 1.0, 1.0, 2.0]
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._last = clock, clock()
        self._lock = threading.Lock()
        self._ends: list[float] = []
        """When standstills ended."""
        self._totals: list[float] = [0.0]
        """Seconds of all standstills, before the first of these ends and from each on."""

    def now(self) -> float:
        """What the clock shows."""
        with self._lock:
            now = self._clock()
            if now - self._last > STANDSTILL_S:
                self._ends.append(now)
                self._totals.append(self._totals[-1] + now - self._last)
                del self._ends[:-_MOST], self._totals[: -_MOST - 1]
            self._last = now
            return now

    def passed(self, since: float, now: float) -> float:
        """Seconds from one time to another one, without standstills."""
        return max(0.0, now - since - self._total(now) + self._total(since))

    def _total(self, at: float) -> float:
        return self._totals[bisect_right(self._ends, at)]
