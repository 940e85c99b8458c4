"""When a query starts on executors, and when it moves."""

from __future__ import annotations

import pytest

from wallaroo.engine.realtime.placement import Placement
from wallaroo.engine.spark.supervised_query import NotYet


class Stub:
    """Executors with room for three tasks each."""

    def __init__(self, *names: str, wanted: int) -> None:
        self.names = list(names)
        self.wanted = wanted
        self.now = 0.0

    def running(self) -> list[str]:
        return self.names

    def slots(self) -> int:
        return 3 * len(self.names)

    def clock(self) -> float:
        return self.now


def test_a_query_starts_when_all_executors_are_there_or_late() -> None:
    executors = Stub(wanted=2)
    placement = Placement(executors, 3, executors.clock)
    with pytest.raises(NotYet, match="room for 0"):
        placement.take()
    executors.names = ["1"]
    with pytest.raises(NotYet, match="1 of 2"):
        placement.take()
    executors.now = 100.0
    placement.take()


def test_a_query_needs_room_for_all_its_tasks() -> None:
    executors = Stub("1", wanted=1)
    placement = Placement(executors, 4, executors.clock)
    executors.now = 1_000.0
    with pytest.raises(NotYet, match="4 tasks"):
        placement.take()


def test_a_query_moves_to_more_executors_once_all_are_there() -> None:
    executors = Stub("1", wanted=1)
    placement = Placement(executors, 3, executors.clock)
    assert not placement.is_outdated()
    placement.take()
    placement.worked()
    executors.wanted = 3
    assert not placement.is_outdated()
    executors.names = ["1", "2"]
    assert not placement.is_outdated()
    executors.names = ["1", "2", "3"]
    assert placement.is_outdated()
    placement.take()
    placement.worked()
    assert not placement.is_outdated()


def test_a_query_moves_to_those_that_are_there_if_no_more_come() -> None:
    executors = Stub("1", wanted=3)
    executors.wanted = 1
    placement = Placement(executors, 3, executors.clock)
    placement.take()
    placement.worked()
    executors.wanted, executors.names = 3, ["1", "2"]
    assert not placement.is_outdated()
    executors.now = 60.0
    assert placement.is_outdated()


def test_a_query_moves_when_fewer_are_wanted() -> None:
    executors = Stub("1", "2", wanted=2)
    placement = Placement(executors, 3, executors.clock)
    placement.take()
    placement.worked()
    executors.wanted = 1
    assert placement.is_outdated()


def test_after_a_loss_a_query_runs_on_what_is_left_and_moves_to_the_replacement() -> None:
    executors = Stub("1", "2", wanted=2)
    placement = Placement(executors, 3, executors.clock)
    placement.take()
    placement.worked()
    executors.names = ["1"]
    assert not placement.is_outdated()  # it fails by itself
    placement.take()
    placement.worked()
    executors.names = ["1", "3"]
    assert placement.is_outdated()


def test_a_query_that_waits_for_room_does_not_move() -> None:
    executors = Stub("1", "2", wanted=2)
    placement = Placement(executors, 6, executors.clock)
    placement.take()
    placement.worked()
    executors.names = ["2"]
    with pytest.raises(NotYet, match="room for 3"):
        placement.take()
    executors.names = ["2", "3"]
    assert not placement.is_outdated()
    placement.take()
    placement.worked()
    assert not placement.is_outdated()


def test_a_query_that_starts_is_not_moved_before_it_works() -> None:
    executors = Stub("1", wanted=3)
    placement = Placement(executors, 3, executors.clock)
    executors.now = 60.0
    placement.take()
    executors.names = ["1", "2", "3"]
    assert not placement.is_outdated()
    placement.worked()
    assert placement.is_outdated()
    placement.take()
    executors.wanted = 1
    assert not placement.is_outdated()
    placement.worked()
    assert placement.is_outdated()
