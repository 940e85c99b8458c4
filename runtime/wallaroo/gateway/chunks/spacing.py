"""The time between two chunks: their fixed costs are not to take too much of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from wallaroo.gateway.chunks.pace import Pace

_SAVING_SHARE = 5
"""Chunks are so far apart that saving changes takes one part of so many of the time."""
_WEIGHT = 0.2
"""Weight of the last time that something took, of all."""


class Spacing:
    """Decides when the next chunk is handed out.

    The gap follows what a chunk costs, never how long it waited: a gap that grows with queues would
    lengthen them.

    Args:
        pace: How much is under way at a time.
        clock: Returns seconds; does not run backwards.

    Example:
        >>> now = [0.0]
        >>> spacing = Spacing(Pace(gap_s=0.001, full_bytes=1_000), lambda: now[0])
        >>> spacing.handed_out()
        >>> round(spacing.left_s(waiting_bytes=10), 4)
        0.001
        >>> spacing.left_s(waiting_bytes=1_000)  # a backlog does not wait
        0.0
        >>> round(spacing.left_s(waiting_bytes=10, sinks_s=0.015), 4)
        0.015
        >>> for _ in range(100):
        ...     spacing.saved(0.002)
        >>> round(spacing.left_s(waiting_bytes=1_000), 4)
        0.01
    """

    def __init__(self, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self._pace, self._clock = pace, clock
        self._last = -1.0
        self._batch_since: float | None = None
        """When the first message came of those that a batched step waits for."""
        self._saving_s = 0.0
        """Time that a partition takes to save the changes of a chunk, about."""

    def left_s(
        self, waiting_bytes: int, sinks_s: float = 0.0, *, fills_batch: bool = True
    ) -> float:
        """Seconds until the next chunk may be handed out.

        Args:
            waiting_bytes: Bytes of messages that wait for it.
            sinks_s: Gap between chunks that slow sinks allow for, in seconds.
            fills_batch: Whether a batched step need not wait for more of them.
        """
        now = self._clock()
        gap_s = _SAVING_SHARE * self._saving_s
        if waiting_bytes < self._pace.full_bytes:
            gap_s = max(gap_s, self._pace.gap_s, sinks_s)
        left_s = max(0.0, self._last + gap_s - now)
        if self._batch_since is None:
            self._batch_since = now
        if not fills_batch:
            left_s = max(left_s, self._batch_since + self._pace.batch_wait_s - now)
        return left_s

    def none_wait(self) -> None:
        """Note that no message waits for the next chunk."""
        self._batch_since = None

    def handed_out(self) -> None:
        """Note that a chunk is handed out."""
        self._last, self._batch_since = self._clock(), None

    def saved(self, seconds: float) -> None:
        """Note how long a partition took to save the changes of a chunk."""
        self._saving_s += _WEIGHT * (seconds - self._saving_s)
