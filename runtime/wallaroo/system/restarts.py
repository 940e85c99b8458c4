"""Starting a part again when it fails: after which pause, and how often."""

from __future__ import annotations


class Restarts:
    """Lets a part be started anew, after growing pauses, until it has failed too often in a row.

    Example:
        >>> restarts = Restarts()
        >>> [restarts.pause() for _ in range(6)]
        [0.1, 0.4, 1.6, 5.0, 5.0, None]
    """

    MOST = 5
    """Failures in a row that are mended: more of them are no accident."""
    FIRST_S, FACTOR, LONGEST_S = 0.1, 4, 5.0
    """Pauses: at once after one failure, with patience where something has to get better first."""

    def __init__(self) -> None:
        self.failures = 0
        """Failures in a row."""

    def worked(self) -> None:
        """Note that the part has done what it is for: what comes is the first failure again."""
        self.failures = 0

    def pause(self) -> float | None:
        """Note a failure; the seconds to wait before the next start, None after too many."""
        self.failures += 1
        if self.failures > self.MOST:
            return None
        return min(self.FIRST_S * float(self.FACTOR) ** (self.failures - 1), self.LONGEST_S)
