"""How many messages the next batch may have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wallaroo.engine.pace import Pace


class Clock:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def paced(seconds: float, clock: Clock, cost: float, batches: int, *, fixed: float = 0.0) -> Pace:
    """A pace after full batches, whose messages take *cost* seconds each."""
    pace, at = Pace(seconds, clock), 0
    for _ in range(batches):
        end = at + pace.messages
        pace.begin(at, end)
        clock.now += fixed + cost * (end - at)
        at = end
        pace.end(at)
    return pace


@given(st.floats(1e-6, 10.0), st.floats(0.5, 10.0))
def test_batches_come_to_take_the_time_they_may(cost: float, seconds: float) -> None:
    pace = paced(seconds, Clock(), cost, 30)
    assert pace.messages == 1 or 0.5 * seconds <= pace.messages * cost <= 1.01 * seconds


def test_what_a_batch_costs_besides_its_messages_leaves_time_for_fewer_of_them() -> None:
    pace = paced(3.0, Clock(), 1e-5, 30, fixed=0.5)
    assert 0.9 * 250_000 <= pace.messages <= 250_000


def test_a_batch_is_at_most_four_times_larger_or_smaller_than_the_one_before() -> None:
    clock = Clock()
    fast, slow = paced(3.0, clock, 0.0, 1), paced(3.0, clock, 1.0, 1)
    first = Pace(3.0).messages
    assert (fast.messages, slow.messages) == (first * 4, first // 4)


def test_small_batches_that_are_quick_leave_room_for_a_burst() -> None:
    clock = Clock()
    pace = paced(3.0, clock, 1e-6, 20)
    room = pace.messages
    for at in range(100):
        pace.begin(at, at + 1)
        clock.now += 0.2
        pace.end(at + 1)
    assert pace.messages == room


def test_a_wait_for_messages_is_no_batch() -> None:
    clock = Clock()
    pace = Pace(3.0, clock)
    pace.begin(0, 0)
    clock.now += 1_000.0
    pace.end(0)
    assert pace.messages == Pace(3.0).messages
