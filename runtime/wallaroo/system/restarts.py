"""Limits restarts of a failing component: the pause before each, and their number."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple


class Restart(NamedTuple):
    """Why and when a component was restarted."""

    at: float
    """When it failed, in seconds since the Unix epoch."""
    reason: str


class Restarts:
    """Allows restarts after growing pauses, until too many consecutive failures.

    Example:
        >>> restarts = Restarts()
        >>> [restarts.pause("the disk is full") for _ in range(6)]
        [0.1, 0.4, 1.6, 5.0, 5.0, None]
        >>> restarts.last[-1].reason
        'the disk is full'
    """

    MOST = 5
    """Maximum number of consecutive failures after which to restart."""
    FIRST_S, FACTOR, LONGEST_S = 0.1, 4, 5.0
    """Pauses: short after the first failure, longer if a problem persists."""

    KEPT = 10
    """Restarts whose reasons are kept."""

    def __init__(self) -> None:
        self.failures = 0
        """Number of consecutive failures."""
        self.last: deque[Restart] = deque(maxlen=self.KEPT)
        """The last restarts, the oldest first."""

    def worked(self) -> None:
        """Record that the component works, which resets the number of failures."""
        self.failures = 0

    def pause(self, reason: str) -> float | None:
        """Record a failure; returns the seconds to wait before a restart, None after too many."""
        self.failures += 1
        if self.failures > self.MOST:
            return None
        self.last.append(Restart(time.time(), reason))
        return min(self.FIRST_S * float(self.FACTOR) ** (self.failures - 1), self.LONGEST_S)
