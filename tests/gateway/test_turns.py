"""Turns of sources that are read in the order of time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.gateway.harness import NOWHERE, U32
from tests.helpers import PATIENCE_S
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.gateway.standstills import STANDSTILL_S, Standstills
from wallaroo.gateway.turns import SURE_S, Turn, members_of, turns_among
from wallaroo.model.order import BEGINNING, END


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.looks = Standstills(lambda: self.now)

    def passes(self, seconds: float) -> None:
        """Let time pass, with somebody who looks at the clock all the time."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + STANDSTILL_S)
            self.looks.now()


def turns(count: int, clock: Clock | None = None, idle_s: float = 60.0) -> Sequence[Turn]:
    sources = [
        CustomSource(f"source {n}", U32, bytes, NOWHERE, None, idle_ns=int(idle_s * 1e9))  # type: ignore[arg-type]
        for n in range(count)
    ]
    clock = clock or Clock()
    found = turns_among(members_of(range(count), sources, clock.looks), clock.looks)
    return [found[n] for n in range(count)]


def test_the_earliest_goes_and_the_others_wait_for_it() -> None:
    one, two = turns(2)
    assert one.limit(5) < 5  # nothing is known of the other
    assert two.limit(3) == 5
    assert one.limit(5) == 3
    two.reads(8)
    assert one.limit(5) == 8
    one.rests()
    assert two.limit(9) == END


def test_a_source_that_does_not_deliver_is_left_out_after_a_while() -> None:
    clock = Clock()
    one, two = turns(2, clock, idle_s=10.0)
    two.reads(3)
    clock.passes(10.0)
    assert one.limit(5) == 3
    clock.passes(0.1)
    with capture_logs() as logs:
        assert one.limit(5) == END
        assert one.limit(6) == END
    assert [(log["event"], log["source"]) for log in logs] == [("source left out", "source 1")]
    two.reads(4)
    assert one.limit(6) == 4


def test_a_standstill_of_the_process_is_no_silence_of_a_source() -> None:
    clock = Clock()
    one, two, three = turns(3, clock, idle_s=10.0)
    two.reads(3)
    three.rests()
    clock.passes(9.0)
    for _ in range(3):
        clock.now += 75.0
        assert one.limit(5) == BEGINNING  # `three` may have more now
        three.rests(clock.now - 40.0)  # it looked while nobody else did
        assert one.limit(5) == BEGINNING
        three.rests()
        assert one.limit(5) == 3
    clock.passes(1.1)
    three.rests()
    assert one.limit(5) == END


def test_a_source_holds_nobody_up_only_while_it_looks_and_finds_nothing() -> None:
    clock = Clock()
    one, two = turns(2, clock)
    two.rests()
    clock.passes(SURE_S)
    assert one.limit(5) == END
    clock.passes(20.0)  # all have stood still
    assert one.limit(5) == BEGINNING
    two.rests(clock.now - 20.0)
    two.goes_on()
    assert one.limit(5) == BEGINNING
    waiting = threading.Thread(target=one.limit, args=(5, PATIENCE_S))
    waiting.start()
    two.rests()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    two.ends()
    clock.passes(100.0)
    assert one.limit(5) == END


def test_a_source_that_waits_for_its_turn_or_delivers_is_not_left_out() -> None:
    clock = Clock()
    one, two, three = turns(3, clock, idle_s=10.0)
    three.rests()
    waiting = threading.Thread(target=two.limit, args=(7, PATIENCE_S))
    one.reads(3)
    waiting.start()
    for _ in range(5):
        clock.passes(9.0)
        one.goes_on()
        assert three.limit(9) == 3
    one.rests()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=8).map(sorted), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_whoever_comes_first_messages_go_in_the_order_of_time(
    logs: list[list[int]], choose: object
) -> None:
    given = turns(len(logs))
    left, delivered = [[*log] for log in logs], list[int]()
    limits = [-1] * len(logs)
    reading = [*range(len(logs))]
    steps = 0
    while reading:
        steps += 1
        assert steps < 10_000, "nobody's turn comes"
        index = choose.choice(reading)  # type: ignore[attr-defined]
        if not left[index]:
            given[index].rests()
            reading.remove(index)
            continue
        if left[index][0] > limits[index]:
            limits[index] = given[index].limit(left[index][0])
        if left[index][0] <= limits[index]:
            delivered.append(left[index].pop(0))
    assert delivered == sorted(delivered)
    assert len(delivered) == sum(map(len, logs))
