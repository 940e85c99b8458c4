"""Entities of windows and joins with event time are moved to another clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wallaroo
from wallaroo.api.aggregations import Aggregation
from wallaroo.api.windows import EarlyResults
from wallaroo.model.joins import AsOfJoin, IntervalJoin
from wallaroo.model.windows import RangeWindows, SessionWindows
from wallaroo.model.windows.base import Windows

BY_NS = 7_000


class Count(Aggregation[int, list[int], int]):
    def initial_accumulator(self) -> list[int]:
        return []

    def update(self, message: int, accumulator: list[int]) -> None:
        accumulator.append(message)

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return one + other

    def output(self, _key: Any, accumulator: list[int]) -> int:
        return len(accumulator)


def pair(left: int, right: int | None) -> tuple[int, int | None]:
    return left, right


def failed(_what: Any, error: BaseException) -> None:
    raise error


SETTINGS: dict[str, Any] = {
    "aggregation": Count(),
    "event_time": int,
    "early": EarlyResults(every_ns=wallaroo.nanoseconds(5)),
}
STEPS: dict[str, list[Any]] = {
    "range": [RangeWindows(range_ns=100, slide_ns=50, **SETTINGS)],
    "session": [SessionWindows(gap_ns=30, **SETTINGS)],
    "interval": [
        IntervalJoin(pair, True, int, int, is_left, True, 10, 20, 5) for is_left in (True, False)
    ],
    "as-of": [AsOfJoin(pair, True, int, int, is_left, 20, 5) for is_left in (True, False)],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_an_entity_is_as_if_another_clock_had_shown_the_arrivals(steps: list[Windows]) -> None:
    def taken(clock: Callable[[int], int]) -> Any:
        entity = steps[0].new_entity()
        for at, time in enumerate((1_000, 1_003, 1_008, 1_009)):
            steps[at % len(steps)].take(entity, "key", time, clock(at), failed)
        return entity

    here, there = taken(lambda at: 500 + at), taken(lambda at: 500 + at + BY_NS)
    due_ns = steps[0].due_ns(here)
    assert due_ns is not None
    steps[0].shift(here, BY_NS)
    assert here == there
    assert steps[0].due_ns(here) == steps[0].due_ns(there) == due_ns + BY_NS
