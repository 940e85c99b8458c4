"""Timers by key, held against a dictionary that is searched each time."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from wallaroo.dataflow.timers import Timers

KEYS = st.integers(0, 3)
TIMES = st.integers(0, 20)
ACTIONS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.one_of(st.none(), TIMES)),
    st.tuples(st.just("forget"), KEYS, st.none()),
    st.tuples(st.just("take"), st.none(), TIMES),
)


@given(st.lists(ACTIONS, max_size=40))
def test_timers_expire_by_their_last_times_in_the_order_in_which_they_were_set(
    actions: list[tuple[str, int, int | None]],
) -> None:
    timers, expected = Timers(), dict[int, tuple[int, int]]()
    for number, (action, key, time) in enumerate(actions):
        if action == "set":
            timers.set(0, key, time)
            if time is None:
                expected.pop(key, None)
            elif key not in expected or expected[key][0] != time:
                expected[key] = time, number
        elif action == "forget":
            timers.forget(0, key)
            expected.pop(key, None)
        else:
            assert time is not None
            due = sorted((at, one) for one, at in expected.items() if at[0] <= time)
            assert [one for _, one in timers.take_due(time)] == [one for _, one in due]
            for _, one in due:
                del expected[one]
        assert timers.next_ns() == min((at for at, _ in expected.values()), default=None)
        for one in range(4):
            assert timers.of(0, one) == expected.get(one, (None, 0))[0]


def test_a_timer_that_each_message_moves_takes_the_memory_of_one() -> None:
    timers = Timers()
    timers.set(0, "key", 0)
    tracemalloc.start()
    try:
        for time in range(1, 10_000):
            timers.set(0, "key", time)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 10_000
    assert timers.take_due(9_998) == []
    assert timers.take_due(9_999) == [(0, "key")]
