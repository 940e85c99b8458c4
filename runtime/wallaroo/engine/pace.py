"""How large a batch may be: as large as what there is time and memory for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_FIRST = 20_000
"""Messages of the first batch at most: a fast application passes that in a fraction of a second,
and a slow one is found out before it has a million of them in hand."""
_STEP = 4
"""Times that a batch may be larger, or smaller, than the one before: one that took long may have
had to wait for something else."""


@dataclass(frozen=True)
class BatchLimits:
    """Bounds of a batch; it takes one chunk of the journal at least."""

    max_bytes: int = 64 * 1024**2
    """Bytes of messages: what processes hold of a batch at a time grows with it."""
    seconds: float = 3.0
    """Seconds that a batch may take under load, about: results come out, and state is safe, at its
    end. A batch costs about 0.2 s besides its messages."""


class Pace:
    """Learns from each batch how many messages the next may have.

    Args:
        seconds: How long a batch may take.
        clock: Tells the time, in seconds.

    Example:
        >>> now = 0.0
        >>> pace = Pace(3.0, lambda: now)
        >>> pace.begin(0, 20_000)
        >>> now = 12.0
        >>> pace.end(20_000)
        >>> pace.messages
        5000
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._batch: tuple[int, int, float] | None = None
        self.messages = _FIRST
        """Messages that the next batch may have."""

    def begin(self, start: int, end: int) -> None:
        """Note that a batch of the offsets [*start*, *end*) begins."""
        self._batch = (start, end, self._clock()) if end > start else None

    def end(self, reached: int) -> None:
        """Note that all before offset *reached* is processed."""
        if self._batch is None or self._batch[1] != reached:
            return
        start, end, began = self._batch
        self._batch = None
        count, took = end - start, max(self._clock() - began, 1e-3)
        fitting = self._seconds / took
        if fitting < 1:
            fewer = min(self.messages, int(count * fitting))
            self.messages = max(1, self.messages // _STEP, fewer)
        else:
            self.messages = max(self.messages, int(count * min(fitting, _STEP)))
