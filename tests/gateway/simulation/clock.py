"""An event loop whose time passes only while it waits, and so costs nothing."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from wallaroo.gateway.chunks.epoch import EpochTimer
from wallaroo.gateway.chunks.spacing import Spacing
from wallaroo.gateway.journal.clock import Uptime

_EPOCH_NS = 1_700_000_000 * 10**9
_STEP_S = 1e-7
"""Time from one look at the clock to the next, so that it does not stand still."""


class _Call:
    """Something that is called later, unless it is cancelled."""

    __slots__ = ("arguments", "do")

    def __init__(self, do: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.do: Callable[..., object] | None = do
        self.arguments = arguments

    def cancel(self) -> None:
        """Let it not be called."""
        self.do = None


class _Task:
    """A coroutine that waits for nothing."""

    def __init__(self, loop: VirtualLoop, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._call = loop.call_soon(self._run)
        self._then: Callable[[_Task], object] = lambda _task: None

    def add_done_callback(self, then: Callable[[_Task], object]) -> None:
        """Call *then* at its end."""
        self._then = then

    def cancel(self) -> None:
        """Let it not begin."""
        if self._call.do is not None:
            self._call.cancel()
            self._work.close()

    def _run(self) -> None:
        self._call.cancel()
        try:
            self._work.send(None)
        except StopIteration:
            self._then(self)
        else:
            msg = "it waits"
            raise AssertionError(msg)


class VirtualLoop:
    """As much of an event loop as the gateway's data plane needs.

    Args:
        failed: Called with what a callback raises.

    Attributes:
        now: What all clocks of the process say, in seconds.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self.now = 1_000.0
        self._failed = failed
        self._soon: deque[_Call] = deque()
        self._timed: list[tuple[float, int, _Call]] = []
        self._order = itertools.count()
        self._runs = False

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`."""
        self.now += _STEP_S
        return self.now

    def wall_ns(self) -> int:
        """The wall clock."""
        return _EPOCH_NS + int(self.time() * 1e9)

    def uptime(self) -> Uptime:
        """The time since the machine was started."""
        return Uptime(1, int(self.time() * 1e9))

    def take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Let the gateway's code go by this clock."""
        patch.setattr(time, "monotonic", self.time)
        for timer in (EpochTimer, Spacing):
            patch.setattr(timer.__init__, "__defaults__", (self.time,))

    def call_soon(self, do: Callable[..., object], *arguments: Any) -> _Call:
        """See `asyncio.AbstractEventLoop.call_soon`."""
        call = _Call(do, arguments)
        self._soon.append(call)
        return call

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, do: Callable[..., object], *arguments: Any) -> _Call:
        """See `asyncio.AbstractEventLoop.call_later`."""
        return self.call_at(self.time() + delay_s, do, *arguments)

    def call_at(self, when: float, do: Callable[..., object], *arguments: Any) -> _Call:
        """See `asyncio.AbstractEventLoop.call_at`."""
        call = _Call(do, arguments)
        heapq.heappush(self._timed, (when, next(self._order), call))
        return call

    def create_task(self, work: Coroutine[Any, Any, None]) -> _Task:
        """See `asyncio.AbstractEventLoop.create_task`."""
        return _Task(self, work)

    def stop(self) -> None:
        """Let `run` return."""
        self._runs = False

    def run(self) -> None:
        """Run until `stop` is called."""
        self._runs = True
        soon, timed = self._soon, self._timed
        while self._runs:
            if soon:
                call = soon.popleft()
            else:
                assert timed, "everything waits for something that never comes"
                when, _, call = heapq.heappop(timed)
                self.now = max(self.now, when)
            if call.do is not None:
                try:
                    call.do(*call.arguments)
                except Exception as error:
                    self._failed(error)
