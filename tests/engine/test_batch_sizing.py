"""How many messages the next batch may have, against models of what batches cost."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.engine.batch_sizing import BatchCosts, CostsFile, Pace

BOUND_S = 3.0
FIXED = st.floats(0.01, 20.0)
EACH = st.floats(1e-6, 1e-3)


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


class Costs(NamedTuple):
    """What batches cost."""

    fixed: float
    each: float
    times: float = 1.0
    """How much longer both take just now."""


class Done(NamedTuple):
    """A batch."""

    messages: int
    took: float
    costs: Costs


@dataclass
class Batches:
    """Batches under a load that fills each of them."""

    done: list[Done]

    def efficiency(self) -> float:
        """Messages, as a part of what the best size of batches within the bound would have got."""
        best = sum(
            b.took
            / b.costs.times
            / b.costs.each
            * _budget(b.costs)
            / (_budget(b.costs) + b.costs.fixed)
            for b in self.done
        )
        return sum(b.messages for b in self.done) / best

    def longest(self) -> float:
        """The longest time, in units of what the fixed cost allows."""
        return max(b.took / max(BOUND_S, 2 * b.costs.fixed) for b in self.done)

    def after(self, batches: int) -> Batches:
        """Without the first ones."""
        return Batches(self.done[batches:])


def _budget(costs: Costs) -> float:
    """Seconds for the messages of a batch: at least as long as the fixed cost takes."""
    return max(BOUND_S - costs.fixed, costs.fixed)


def batches(
    number: int, costs_of: Callable[[int], Costs], *, noise: float = 0.0, seed: int = 0
) -> Batches:
    """*number* full batches, whose costs depend on their number and, with *noise*, on chance."""
    chance, clock, done, at = random.Random(seed), Clock(), [], 0
    pace = Pace(BOUND_S, clock)
    for index in range(number):
        end, costs = at + pace.messages, costs_of(index)
        took = (costs.fixed + costs.each * (end - at)) * costs.times
        took *= chance.lognormvariate(0.0, noise)
        pace.begin(at, end)
        clock.now += took
        pace.end(end)
        done.append(Done(end - at, took, costs))
        at = end
    return Batches(done)


@given(st.floats(1e-6, 10.0), st.floats(0.5, 10.0))
def test_batches_come_to_take_the_time_they_may(cost: float, seconds: float) -> None:
    most = paced(seconds, Clock(), cost, 30).costs.messages
    assert most == 1 or 0.5 * seconds <= most * cost <= 1.01 * seconds


def test_what_a_batch_costs_besides_its_messages_leaves_time_for_fewer_of_them() -> None:
    costs = paced(3.0, Clock(), 1e-5, 30, fixed=0.5).costs
    assert costs.messages == pytest.approx(250_000, rel=0.01)
    assert costs.fixed_s == pytest.approx(0.5, rel=0.05)
    assert not costs.exceeded


def test_a_fixed_cost_above_the_bound_does_not_make_batches_small() -> None:
    costs = paced(3.0, Clock(), 1e-5, 40, fixed=5.0).costs
    assert costs.messages == pytest.approx(500_000, rel=0.05)
    assert costs.exceeded
    assert costs.longest_s == pytest.approx(10.0, rel=0.05)


@settings(max_examples=50, deadline=None)
@given(FIXED, EACH)
def test_batches_keep_to_the_bound_and_to_most_of_the_throughput(fixed: float, each: float) -> None:
    settled = batches(80, lambda _: Costs(fixed, each)).after(20)
    assert settled.efficiency() > 0.75
    assert settled.longest() < 1.02


@settings(max_examples=50, deadline=None)
@given(FIXED, EACH, st.integers(0, 1_000))
def test_noise_costs_no_more_than_half_of_the_throughput(
    fixed: float, each: float, seed: int
) -> None:
    settled = batches(120, lambda _: Costs(fixed, each), noise=0.2, seed=seed).after(20)
    assert settled.efficiency() > 0.5


@settings(max_examples=50, deadline=None)
@given(FIXED, EACH, st.integers(5, 40), st.floats(2.0, 6.0), st.integers(0, 1_000))
def test_contention_that_comes_and_goes_does_not_make_batches_small(
    fixed: float, each: float, length: int, times: float, seed: int
) -> None:
    def costs(index: int) -> Costs:
        return Costs(fixed, each, times if index // length % 2 else 1.0)

    assert batches(200, costs, noise=0.1, seed=seed).after(20).efficiency() > 0.33


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.01, 2.0),
    EACH,
    st.floats(0.05, 20.0),
    st.floats(0.02, 50.0),
    st.integers(0, 1_000),
)
def test_costs_that_change_at_once_are_followed(
    fixed: float, each: float, more: float, longer: float, seed: int
) -> None:
    def costs(index: int) -> Costs:
        return Costs(fixed, each) if index < 40 else Costs(fixed * more, each * longer)

    settled = batches(140, costs, noise=0.05, seed=seed).after(60)
    assert settled.efficiency() > 0.6


@settings(max_examples=50, deadline=None)
@given(FIXED, EACH)
def test_no_stall_makes_batches_small_for_long(fixed: float, each: float) -> None:
    """A gateway that is away for ten minutes is not a cost of batches."""

    def costs(index: int) -> Costs:
        return Costs(fixed, each, 600.0 if index == 40 else 1.0)

    assert batches(100, costs).after(60).efficiency() > 0.7


def test_it_comes_out_of_batches_of_one_message() -> None:
    clock, at = Clock(), 0
    pace = paced(3.0, clock, 1.0, 40)
    assert pace.costs.messages <= 3
    for _ in range(60):  # now a batch takes 4 s, whatever its messages
        pace.begin(at, at + pace.messages)
        clock.now += 4.0 + 1e-5 * pace.messages
        at += pace.messages
        pace.end(at)
    assert pace.costs.messages > 300_000


def test_a_batch_is_at_most_four_times_larger_or_smaller_than_the_one_before() -> None:
    clock = Clock()
    fast, slow = paced(3.0, clock, 0.0, 1), paced(3.0, clock, 1.0, 1)
    first = Pace(3.0).messages
    assert (fast.messages, slow.messages) == (first * 4, first // 4)


def test_small_batches_that_are_quick_leave_room_for_a_burst() -> None:
    clock = Clock()
    pace = paced(3.0, clock, 1e-6, 20)
    room = pace.costs.messages
    for at in range(100):
        pace.begin(at, at + 1)
        clock.now += 0.2
        pace.end(at + 1)
    assert pace.messages == room


def test_batches_bounded_by_their_bytes_follow_their_costs_too() -> None:
    clock, at = Clock(), 0
    pace = Pace(3.0, clock)
    for index in range(80):
        end = at + min(pace.messages, 70_000)
        pace.begin(at, end)
        clock.now += 0.2 + (1e-6 if index < 40 else 1e-3) * (end - at)
        at = end
        pace.end(at)
    assert pace.costs.messages == pytest.approx(2_800, rel=0.1)


def test_a_wait_for_messages_is_no_batch() -> None:
    clock = Clock()
    pace = Pace(3.0, clock)
    pace.begin(0, 0)
    clock.now += 1_000.0
    assert not pace.end(0)
    assert pace.messages == Pace(3.0).messages


def test_costs_are_left_in_a_file(tmp_path: Path) -> None:
    file = CostsFile(str(tmp_path / "costs"))
    assert file.read() is None
    costs = BatchCosts(3.0, 0.25, 1e-5, 275_000)
    file.write(costs)
    assert file.read() == costs


def test_costs_that_cannot_be_left_stop_no_batch(tmp_path: Path) -> None:
    file = CostsFile(str(tmp_path / "missing" / "costs"))
    file.write(BatchCosts(3.0, 0.25, 1e-5, 275_000))
    assert file.read() is None
