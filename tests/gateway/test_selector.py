"""The gateway's selector: events are taken one by one, or gathered under load."""

from __future__ import annotations

import os
import select
import selectors
from collections.abc import Iterator

import pytest

from wallaroo.gateway.selector import GatheringSelector


class Clock:
    """A clock that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def ready() -> Iterator[int]:
    """A descriptor that can always be read."""
    descriptor = os.eventfd(1)
    yield descriptor
    os.close(descriptor)


def looks(selector: GatheringSelector, clock: Clock, count: int, apart_s: float) -> None:
    for _ in range(count):
        clock.now += apart_s
        assert selector.select(1.0)


def test_events_that_come_slowly_are_served_at_once(ready: int) -> None:
    clock = Clock()
    with GatheringSelector(clock, clock.sleep) as selector:
        selector.register(ready, selectors.EVENT_READ)
        looks(selector, clock, 200, 0.001)
    assert not selector.is_busy
    assert clock.slept == []


def test_events_that_come_fast_are_gathered_until_they_come_slowly_again(ready: int) -> None:
    clock = Clock()
    with GatheringSelector(clock, clock.sleep) as selector:
        selector.register(ready, selectors.EVENT_READ)
        looks(selector, clock, 400, 0.0001)
        assert selector.is_busy
        slept = len(clock.slept)
        assert slept
        assert selector.select(0.0), "what need not wait does not"
        assert len(clock.slept) == slept
        looks(selector, clock, 100, 0.001)
    assert not selector.is_busy


def test_it_rests_no_longer_than_it_is_asked_to_wait(ready: int) -> None:
    clock = Clock()
    with GatheringSelector(clock, clock.sleep) as selector:
        selector.register(ready, selectors.EVENT_READ)
        looks(selector, clock, 400, 0.0001)
        clock.slept.clear()
        selector.select(0.0001)
    assert clock.slept == [pytest.approx(0.0001)]


def test_a_short_time_out_is_not_rounded_to_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(select, "select", lambda *a: waited.append(a[-1]))
    with GatheringSelector() as selector:
        assert selector.select(0.0001) == []
    assert waited == [0.0001]
