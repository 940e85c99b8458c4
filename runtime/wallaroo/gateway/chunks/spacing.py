"""The time between two chunks: under load they take longer, and so the next one becomes larger."""

from __future__ import annotations

import time

from wallaroo.gateway.chunks.pace import Pace

_SAVING_SHARE = 5
"""Chunks are so far apart that saving changes takes one part of so many of the time."""
_UNDER_WAY = 2
"""Chunks are so far apart that so many are under way."""
_FULL = 0.75
"""Part of a chunk's limit from which on the next one need not wait to become larger."""
_WEIGHT = 0.2
"""Weight of the last time that something took, of all."""


class Spacing:
    """Decides when the next chunk is handed out; may be used by several threads.

    Args:
        pace: How much is under way at a time.

    Example:
        >>> spacing = Spacing(Pace(gap_s=0.001, longest_gap_s=0.02, chunk_bytes=1_000))
        >>> spacing.gap_s
        0.001
        >>> for _ in range(100):
        ...     spacing.ran(0.010)
        >>> round(spacing.gap_s, 4)
        0.005
        >>> spacing.handed_out(1_000)
        >>> spacing.gap_s
        0.0
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._last = 0.0
        self._is_full = False
        """Whether the last chunk reached its limit: there is a backlog."""
        self._run_s = 0.0
        """Time from handing out a chunk until it can be published, about."""
        self._saving_s = 0.0
        """Time that a partition takes to save the changes of a chunk, about."""

    @property
    def gap_s(self) -> float:
        """Seconds from the last chunk to the next."""
        saving = _SAVING_SHARE * self._saving_s
        if self._is_full:
            return saving
        paced = min(self._run_s / _UNDER_WAY, self._pace.longest_gap_s)
        return max(self._pace.gap_s, paced, saving)

    def wait(self) -> None:
        """Wait until it is time for the next chunk."""
        early = self._last + self.gap_s - time.monotonic()
        if early > 0:
            time.sleep(early)

    def handed_out(self, size: int) -> None:
        """Note that a chunk of *size* bytes is handed out."""
        self._last = time.monotonic()
        self._is_full = size > _FULL * self._pace.chunk_bytes

    def ran(self, seconds: float) -> None:
        """Note how long a chunk took until it could be published."""
        self._run_s += _WEIGHT * (seconds - self._run_s)

    def saved(self, seconds: float) -> None:
        """Note how long a partition took to save the changes of a chunk."""
        self._saving_s += _WEIGHT * (seconds - self._saving_s)
