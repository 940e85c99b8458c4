"""An event loop whose time passes only while it waits, and so costs nothing."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Mapping
from typing import Any

import pytest

from wallaroo.gateway.chunks.epoch import EpochTimer
from wallaroo.gateway.chunks.spacing import Spacing
from wallaroo.gateway.journal.clock import Uptime

_EPOCH_NS = 1_700_000_000 * 10**9
_STEP_S = 1e-7
"""Time from one look at the clock to the next, so that it does not stand still."""


class _Selector(selectors.BaseSelector):
    """Waits by letting the clock pass; nothing is ever ready."""

    def __init__(self, clock: VirtualLoop) -> None:
        self._clock = clock

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits for something that never comes"
        self._clock.now += timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `now` is what all clocks of the process say, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0
        super().__init__(_Selector(self))

    def time(self) -> float:
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
