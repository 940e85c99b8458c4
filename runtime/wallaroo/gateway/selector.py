"""A selector that takes many events at a time when they come fast.

A loop that looks for events as soon as it has served the last one finds one at a time under load,
and pays for each what it could pay for many. So it rests a little before it looks again, once
events come that fast: for less than a chunk waits anyway. What comes alone is served at once.

It also waits for as long as it is asked to: epoll's own time-outs are whole milliseconds, which is
longer than most chunks wait.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import time
from collections.abc import Callable

_REST_S = 0.0004
"""Time from one look to the next at least, under load."""
_BUSY, _CALM = 4_000.0, 2_000.0
"""Events a second over which the loop is under load, and below which it no longer is."""
_FINE_S = 0.01
"""Time-outs below this are not rounded."""
_COUNTED_S = 0.02
"""Time for which events are counted."""


class GatheringSelector(selectors.EpollSelector):
    """An epoll selector that rests before it looks, under load.

    Args:
        clock: Returns seconds; does not run backwards.
        sleep: Rests for some seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._clock, self._sleep = clock, sleep
        self._looked_at = self._counted_from = clock()
        self._count = 0
        self.is_busy = False
        """Whether it is under load."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`."""
        if self.is_busy and (timeout is None or timeout > 0):  # else there is something else to do
            rest_s = self._looked_at + _REST_S - self._clock()
            if timeout is not None:
                rest_s = min(rest_s, timeout)
            if rest_s > 0:
                self._sleep(rest_s)
                timeout = timeout and max(0.0, timeout - rest_s)
        if timeout is not None and 0 < timeout < _FINE_S:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0.0
        found = super().select(timeout)
        self._looked_at = now = self._clock()
        self._count += len(found)
        if now - self._counted_from > _COUNTED_S:
            rate = self._count / (now - self._counted_from)
            self.is_busy = rate > (_CALM if self.is_busy else _BUSY)
            self._count, self._counted_from = 0, now
        return found


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop with such a selector."""
    return asyncio.SelectorEventLoop(GatheringSelector())
