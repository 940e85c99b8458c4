"""Records of several partitions, in the order of their times."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.gateway.harness import NOWHERE, U32
from wallaroo.connectors.kafka.fetch import times_of_records
from wallaroo.connectors.kafka.partition_order import Lanes
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.model.order import END, times_function

ALL = 10**6


def record(partition: int, offset: int, at: int) -> Message:
    value, timestamp = b"%d" % at, (1, at)
    return Message(topic="t", partition=partition, offset=offset, value=value, timestamp=timestamp)


def time_of(message: Any) -> int:
    return int(message.value())


class Lane:
    """A clock, and lanes that it moves."""

    def __init__(self, partitions: int, idle_s: float = 60.0) -> None:
        self.now = 0.0
        self.ends = dict[int, int]()
        times_of = lambda messages: [*map(time_of, messages)]  # noqa: E731
        self.lanes = Lanes(range(partitions), times_of, idle_s, lambda: self.now)

    def add(self, *records: Message) -> None:
        self.lanes.add(records, self.ends.__getitem__)

    def take(self, until: int = END, most: int = ALL) -> list[int]:
        return [time_of(one) for one in self.lanes.take(until, most)]


def test_records_wait_until_each_partition_has_come_as_far_or_has_no_more() -> None:
    made = Lane(2)
    made.ends = {0: 9, 1: 2}
    made.add(record(0, 0, 10), record(0, 1, 30))
    assert made.take() == []
    assert made.lanes.next_ns is None
    made.add(record(1, 0, 20))
    assert made.lanes.next_ns == 10
    assert made.take() == [10, 20]
    made.add(record(1, 1, 25))  # its last
    assert made.take(26) == [25]
    assert made.take() == [30]
    assert made.lanes.bound_ns == 30
    made.ends[0] = 3
    made.add(record(0, 2, 40))
    assert made.take() == [40]
    assert made.lanes.bound_ns == END


def test_a_partition_at_its_end_holds_up_once_the_brokers_say_that_it_has_more() -> None:
    made = Lane(2)
    made.ends = {0: 1, 1: 1}
    made.add(record(0, 0, 10), record(1, 0, 11))
    assert made.lanes.at_end == [0, 1]
    made.lanes.note_ends({0: 1, 1: 3})  # all have stood still, and records have come meanwhile
    made.ends = {0: 2, 1: 3}
    made.add(record(0, 1, 30))
    assert made.take() == [10, 11]
    made.add(record(1, 1, 20), record(1, 2, 29))
    assert made.take() == [20, 29, 30]


def test_a_partition_of_which_nothing_comes_is_left_out_after_a_while() -> None:
    made = Lane(2, idle_s=10.0)
    made.ends = {0: 9, 1: 9}
    made.add(record(0, 0, 10))
    made.now = 9.0
    made.add(record(0, 1, 12))
    made.now = 10.0
    assert made.take() == []
    made.now = 10.1
    with capture_logs() as logs:
        assert made.take() == [10, 12]
        assert made.take() == []
    assert [(log["event"], log["partition"]) for log in logs] == [("partition left out", 1)]
    made.add(record(1, 0, 20))
    assert made.take() == []  # the other one is not idle, and may have earlier ones
    made.add(record(0, 2, 15))
    assert made.take() == [15]


def test_a_partition_with_too_much_is_full_until_half_of_it_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wallaroo.connectors.kafka.partition_order._FULL_BYTES", 0)
    monkeypatch.setattr("wallaroo.connectors.kafka.partition_order._LEAST_BYTES", 4000)
    made = Lane(2)
    made.ends = {0: 99, 1: 99}
    made.add(*(record(0, offset, offset) for offset in range(10)))
    assert made.lanes.full(()) == {0}
    made.add(record(1, 0, 1))
    assert made.take() == [0, 1, 1]
    assert made.lanes.full({0}) == {0}
    made.add(record(1, 1, 20))
    made.take()
    assert made.lanes.full({0}) == set()


def test_new_partitions_are_waited_for() -> None:
    made = Lane(1)
    made.ends = {0: 1, 1: 1}
    made.lanes.open([1])
    made.add(record(0, 0, 10))
    assert made.take() == []
    made.add(record(1, 0, 5))
    assert made.take() == [5, 10]


def test_the_time_of_a_record_is_its_timestamp_unless_that_cannot_be() -> None:
    source = KafkaSource("s", U32, bytes, NOWHERE, Topic("t", "nowhere:9092"))
    find = times_of_records(source, None)
    assert find([record(0, 0, 7)]) == [7_000_000]
    assert find([record(0, 0, 10**15)]) == [None]  # in the future
    assert find([Message(topic="t", partition=0, offset=0, value=b"")]) == [None]
    own = KafkaSource("s", U32, bytes, NOWHERE, Topic("t", "nowhere:9092"), time=int)
    find = times_of_records(own, times_function(own))
    assert find([record(0, 0, 10**15)]) == [10**15]


@given(
    st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_order_of_fetches_gives_the_order_of_time(logs: list[list[int]], choose: Any) -> None:
    made = Lane(len(logs))
    made.ends = {partition: len(log) for partition, log in enumerate(logs)}
    for partition, log in enumerate(logs):
        if not log:  # as the event of the end of a partition says
            made.lanes._lanes[partition].is_at_end = True
    read, taken = [0] * len(logs), list[Message]()
    while behind := [n for n, log in enumerate(logs) if read[n] < len(log)]:
        partition = choose.choice(behind)
        first = read[partition]
        read[partition] = end = choose.randint(first + 1, len(logs[partition]))
        found = enumerate(logs[partition][first:end], first)
        made.add(*(record(partition, offset, at) for offset, at in found))
        taken += made.lanes.take(END, choose.randint(1, 9))
    taken += made.lanes.take(END, ALL)
    reached = [0] * len(logs)
    times = list[int]()
    for one in taken:
        partition = one.partition() or 0
        reached[partition] = max(reached[partition], time_of(one))
        times.append(reached[partition])
    assert times == sorted(times)
    for partition, log in enumerate(logs):
        assert [time_of(one) for one in taken if one.partition() == partition] == log
