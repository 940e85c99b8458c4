"""The levels of chunks that are under way: later ones begin in the order of the chunks."""

from __future__ import annotations

import pytest

from wallaroo.gateway.chunks.flights import Flights
from wallaroo.wire.chunk_messages import READER, NextLevel, Report
from wallaroo.wire.records import Packed, Tally


def first_stage(number: int, **partitions: list[int]) -> Report:
    of_level = {int(level[1:]): listed for level, listed in partitions.items()}
    return Report(number, [], Tally(), partitions=of_level)


def of_partition(number: int, level: int, *sent: Packed) -> Report:
    return Report(number, [], Tally(), level, sent=sent, changes=b"%d" % level)


def test_a_level_begins_when_all_partitions_have_reported_the_one_before() -> None:
    flights = Flights(0)
    flights.begin(10, isolates=True)
    assert not flights.report(0, of_partition(1, 1, Packed(2, 1, b"x")))
    assert not flights.report(READER, first_stage(1, l1=[0, 1]))
    assert flights.report(1, of_partition(1, 1, Packed(2, 1, b"y"))) == [
        NextLevel(1, 2, True, {1: [b"x", b"y"]})
    ]
    assert not flights.has_finished()
    assert not flights.report(1, of_partition(1, 2))
    (chunk,) = flights.take()
    assert chunk.changes == [(0, b"1"), (1, b"1"), (1, b"2")]


def test_a_later_chunk_does_not_overtake_an_earlier_one_between_levels() -> None:
    flights = Flights(0)
    flights.begin(10)
    flights.begin(20)
    for number in (1, 2):
        flights.report(READER, first_stage(number, l1=[number - 1], l3=[0]))
    assert not flights.report(1, of_partition(2, 1, Packed(2, 0, b"later")))
    begun = flights.report(0, of_partition(1, 1))
    assert begun == [NextLevel(1, 3, False, {}), NextLevel(2, 2, False, {0: [b"later"]})]
    assert flights.report(0, of_partition(2, 2)) == [NextLevel(2, 3, False, {})]


def test_a_chunk_without_messages_for_partitions_is_finished_by_the_first_stage() -> None:
    flights = Flights(4)
    assert flights.begin(10) == 5
    flights.report(READER, first_stage(5))
    assert flights.under_way == 0
    assert flights.unpublished == 1
    assert [chunk.number for chunk in flights.take()] == [5]
    flights.published(1)
    assert flights.unpublished == 0


def test_a_report_that_is_not_expected_is_refused() -> None:
    flights = Flights(0)
    flights.begin(10)
    flights.report(0, of_partition(1, 1))
    with pytest.raises(LookupError, match="chunk 1"):
        flights.report(0, of_partition(1, 1))
    with pytest.raises(LookupError, match="chunk 2"):
        flights.report(0, of_partition(2, 1))
