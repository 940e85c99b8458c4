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
from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.gateway.turns import SURE_S
from wallaroo.model.order import END, times_function

ALL = 10**6


def record(number: int, offset: int, at: int) -> Message:
    value, timestamp = b"%d" % at, (1, at)
    return Message(topic="t", partition=number, offset=offset, value=value, timestamp=timestamp)


def partition(number: int) -> Partition:
    return Partition("t", number)


def time_of(message: Any) -> int:
    return int(message.value())


class Lane:
    """A clock, and lanes that it moves."""

    def __init__(self, partitions: int, idle_s: float = 60.0) -> None:
        self.now = 0.0
        self.ends = dict[int, int]()
        times_of = lambda messages: [*map(time_of, messages)]  # noqa: E731
        self.lanes = Lanes(map(partition, range(partitions)), times_of, idle_s, lambda: self.now)

    def add(self, *records: Message) -> None:
        self.lanes.add(records, lambda at: self.ends[at.number])

    def told(self, ends: dict[int, int | None]) -> None:
        """Let the brokers tell at once where partitions end."""
        self.lanes.note_ends({partition(at): end for at, end in ends.items()}, self.now)

    @property
    def unsure(self) -> list[int]:
        """The partitions for whose ends the brokers are to be asked."""
        return [at.number for at in self.lanes.unsure]

    def passes(self, seconds: float) -> None:
        """Let time pass, and look at the lanes all the time."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 1.0)
            assert self.lanes.bound_ns

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
    assert made.take() == [10, 11]
    assert made.unsure == [0, 1]  # although nothing waits: others may wait for this source
    made.told({0: 1, 1: 1})
    assert made.lanes.sure == made.now
    made.passes(0.4)
    assert made.unsure == []
    assert made.lanes.sure == made.now - 0.4
    made.passes(0.2)
    made.ends = {0: 2, 1: 1}
    made.add(record(0, 1, 30))
    assert made.unsure == [0, 1]
    made.told({0: 2, 1: 4})
    assert made.unsure == []
    assert made.take() == []
    made.ends = {0: 2, 1: 3}  # as an answer says that has been under way for long
    made.add(record(1, 1, 20), record(1, 2, 28))
    assert made.take() == [20, 28]
    made.ends = {0: 2, 1: 4}
    made.add(record(1, 3, 29))
    assert made.unsure == []
    assert made.take() == [29, 30]


def test_the_brokers_are_asked_for_ends_when_they_were_not_within_half_a_second() -> None:
    made = Lane(3)
    made.ends = {0: 9, 1: 1, 2: 1}
    made.add(record(0, 0, 10), record(0, 1, 11), record(1, 0, 10))
    made.told({0: 9, 1: 1, 2: 1})
    made.add(record(2, 0, 10))  # it is at its end now, as it was when that was asked
    made.now += SURE_S / 2
    assert made.unsure == []
    made.now += 0.1
    assert made.unsure == [0, 1, 2]  # together, so that there are two requests in a second
    made.told({0: 9, 1: 1, 2: 1})
    assert made.unsure == []
    assert made.take() == [10, 10, 10, 11]


def test_a_partition_whose_broker_does_not_tell_its_end_holds_up_until_it_is_left_out() -> None:
    made = Lane(2, idle_s=10.0)
    made.ends = {0: 1, 1: 1}
    made.add(record(0, 0, 4), record(1, 0, 5))
    assert made.take() == [4, 5]
    made.passes(3600.0)
    made.ends = {0: 9, 1: 1}
    made.add(record(0, 1, 10))
    assert made.unsure == [0, 1]
    made.told({0: 9, 1: None})
    assert made.unsure == []
    with capture_logs() as logs:
        for _ in range(2):
            made.passes(4.9)
            assert made.take() == []
            assert made.unsure == [1]  # from time to time
            made.told({1: None})
        made.passes(0.3)
        assert made.take() == [10]
    assert [(log["event"], log["partition"]) for log in logs] == [("partition left out", 1)]
    made.passes(4.0)
    made.add(record(0, 2, 20))
    assert made.unsure == [1]
    made.ends = {0: 9, 1: 3}
    made.told({1: 3})
    assert made.take() == []
    made.add(record(1, 1, 15))
    assert made.take() == [15]


def test_a_partition_is_at_its_end_again_once_its_broker_tells_so() -> None:
    made = Lane(2)
    made.ends = {0: 9, 1: 1}
    made.add(record(0, 0, 10), record(1, 0, 5))
    made.told({0: 9, 1: None})
    assert made.take() == [5]
    made.passes(4.0)
    assert made.unsure == [1]
    made.told({1: 1})
    assert made.take() == [10]


def test_a_partition_of_which_nothing_comes_is_left_out_after_a_while() -> None:
    made = Lane(2, idle_s=10.0)
    made.ends = {0: 9, 1: 9}
    made.add(record(0, 0, 10))
    made.passes(9.0)
    made.add(record(0, 1, 12))
    made.now += 75.0  # the process stood still
    assert made.take() == []
    made.passes(1.0)
    assert made.take() == []
    with capture_logs() as logs:
        made.passes(0.05)
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
    assert made.lanes.full(()) == {partition(0)}
    made.add(record(1, 0, 1))
    assert made.take() == [0, 1, 1]
    assert made.lanes.full({partition(0)}) == {partition(0)}
    made.add(record(1, 1, 20))
    made.take()
    assert made.lanes.full({partition(0)}) == set()


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
    made.ends = {number: len(log) for number, log in enumerate(logs)}
    for number, log in enumerate(logs):
        if not log:  # as the event of the end of a partition says
            made.lanes._lanes[partition(number)].is_at_end = True
    read, taken = [0] * len(logs), list[Message]()
    while behind := [n for n, log in enumerate(logs) if read[n] < len(log)]:
        number = choose.choice(behind)
        first = read[number]
        read[number] = end = choose.randint(first + 1, len(logs[number]))
        found = enumerate(logs[number][first:end], first)
        made.add(*(record(number, offset, at) for offset, at in found))
        taken += made.lanes.take(END, choose.randint(1, 9))
    taken += made.lanes.take(END, ALL)
    reached = [0] * len(logs)
    times = list[int]()
    for one in taken:
        number = one.partition() or 0
        reached[number] = max(reached[number], time_of(one))
        times.append(reached[number])
    assert times == sorted(times)
    for number, log in enumerate(logs):
        assert [time_of(one) for one in taken if one.partition() == number] == log
