"""Limits restarts of a failing component: the pause before each, and their number."""

from __future__ import annotations


class Restarts:
    """Allows restarts after growing pauses, until too many consecutive failures.

    Example:
        >>> restarts = Restarts()
        >>> [restarts.pause() for _ in range(6)]
        [0.1, 0.4, 1.6, 5.0, 5.0, None]
    """

    MOST = 5
    """Maximum number of consecutive failures after which to restart."""
    FIRST_S, FACTOR, LONGEST_S = 0.1, 4, 5.0
    """Pauses: short after the first failure, longer if a problem persists."""

    def __init__(self) -> None:
        self.failures = 0
        """Number of consecutive failures."""

    def worked(self) -> None:
        """Record that the component works, which resets the number of failures."""
        self.failures = 0

    def pause(self) -> float | None:
        """Record a failure; returns the seconds to wait before a restart, None after too many."""
        self.failures += 1
        if self.failures > self.MOST:
            return None
        return min(self.FIRST_S * float(self.FACTOR) ** (self.failures - 1), self.LONGEST_S)
