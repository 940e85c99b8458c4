"""Records of the partitions of topics, in the order of their times.

Brokers deliver a megabyte of one partition before the next, so records wait here until each
partition has come as far, or has no more. Those of a partition keep their order: a record whose
time is earlier than that of one before it goes with that one.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import structlog

from wallaroo.connectors.kafka.fetch import partition_of
from wallaroo.connectors.kafka.positions import Partition
from wallaroo.gateway.standstills import Standstills
from wallaroo.gateway.turns import SURE_S
from wallaroo.model.order import END, Timeline

if TYPE_CHECKING:
    from wallaroo.connectors.kafka.fetch import Fetched

_FULL_BYTES = 32 * 1024**2
"""Bytes that wait at most, about, in all partitions together."""
_LEAST_BYTES = 256 * 1024
"""Bytes of a partition that may wait in any case."""
_LOOK_S = SURE_S / 2
"""Seconds after which brokers are asked again for the ends of partitions."""
_AGAIN_S = 3.0
"""Seconds before brokers that did not report the end of a partition are asked again."""
_PER_RECORD = 500
"""Bytes of memory that a record takes besides its value."""

log = structlog.get_logger("wallaroo.gateway")

TimesOf = Callable[[Sequence["Fetched"]], Sequence[int | None]]
"""From records to their times, in nanoseconds since the Unix epoch; None for one without."""


class _Waiting(NamedTuple):
    """A record, or the event of an error or the end of the partition, that waits."""

    at: int
    event: Fetched
    size: int


class _Lane:
    """What waits of one partition."""

    def __init__(self, heard: float) -> None:
        self.waiting = deque[_Waiting]()
        self.size = 0
        self.times = Timeline()
        self.heard = heard
        """When it was last heard of."""
        self.next = 0
        """The offset after what has come."""
        self.is_at_end = False
        """Whether the brokers have no more of it, as far as is known."""
        self.end, self.asked = 0, -math.inf
        """Where it ended when the brokers were asked, and when that was."""
        self.unanswered: float | None = None
        """When the brokers did not tell that in time, if nothing has come since."""
        self.is_left_out = False
        """Whether the others have stopped waiting for it."""

    def add(self, event: Fetched, at: int | None, heard: float) -> None:
        """Let a record wait, or an event."""
        size = _PER_RECORD + len(event.value() or b"")
        self.waiting.append(_Waiting(self.times.reached(at), event, size))
        self.size += size
        self.heard, self.unanswered = heard, None
        self.is_left_out = False

    def note_end(self, end: int | None, asked: float, now: float) -> None:
        """Note the end offset asked for at the time *asked*; None if no broker answered."""
        if end is None:
            if self.is_at_end:  # from now on, the others wait for it
                self.is_at_end, self.heard = False, now
            self.unanswered = now
            return
        was_at_end, self.is_at_end = self.is_at_end, self.next >= end
        if was_at_end or self.is_at_end or self.unanswered is not None:
            self.heard, self.is_left_out = now, False
        self.end, self.asked, self.unanswered = end, asked, None

    def holds_up(self, *, is_heard: bool) -> bool:
        """Whether records of other partitions must not pass the last one of this."""
        return not self.is_at_end and (bool(self.waiting) or is_heard)


class Lanes:
    """The records of all partitions that wait.

    Args:
        partitions: The partitions.
        times_of: Finds the times of records.
        idle_s: Seconds after which a partition holds nothing up of which nothing comes.
        clock: Returns seconds, of a clock that does not jump.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        times_of: TimesOf,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._times_of, self._idle_s, self._clock = times_of, idle_s, Standstills(clock)
        self._lanes = {partition: _Lane(self._clock.now()) for partition in partitions}

    def add(self, events: Sequence[Fetched], end_of: Callable[[Partition], int]) -> None:
        """Let records wait, and events of errors and ends of partitions.

        Args:
            events: The records and events, as they have come.
            end_of: Tells where a partition ends.
        """
        times = iter(self._times_of([event for event in events if event.error() is None]))
        now = self._clock.now()
        of_each: dict[Partition, Fetched] = {}
        for event in events:
            at = next(times) if event.error() is None else None
            partition = partition_of(event)
            self._lanes[partition].add(event, at, now)
            of_each[partition] = event
        for partition, last in of_each.items():
            lane = self._lanes[partition]
            lane.next = (last.offset() or 0) + (last.error() is None)
            is_at_end = last.error() is not None or lane.next >= end_of(partition)
            lane.is_at_end = is_at_end and lane.next >= lane.end

    @property
    def unsure(self) -> list[Partition]:
        """The partitions for whose ends the brokers are to be asked, for `note_ends`."""
        now = self._clock.now()
        # all of them if one is at its end: a request for many costs as much as for one
        every = any(lane.is_at_end and now - lane.asked > _LOOK_S for lane in self._lanes.values())
        return [
            partition
            for partition, lane in self._lanes.items()
            if (every if lane.unanswered is None else now - lane.unanswered > _AGAIN_S)
        ]

    def note_ends(self, ends: Mapping[Partition, int | None], asked: float) -> None:
        """Note end offsets asked for at the time *asked*; None where no broker answered."""
        for partition, end in ends.items():
            self._lanes[partition].note_end(end, asked, self._clock.now())

    @property
    def sure(self) -> float:
        """When it was sure last that no partition has more, apart from those left out."""
        asked = (lane.asked for lane in self._lanes.values() if lane.is_at_end)
        return min(asked, default=self._clock.now())

    @property
    def next_ns(self) -> int | None:
        """The time of the next record that may go; None if none may before others have come."""
        first = min(
            (lane.waiting[0].at for lane in self._lanes.values() if lane.waiting), default=END
        )
        return first if first <= self.bound_ns and first < END else None

    @property
    def bound_ns(self) -> int:
        """The time that records must not pass before others have come; `END` for none."""
        now, bound = self._clock.now(), END
        for partition, lane in self._lanes.items():
            if lane.holds_up(is_heard=self._clock.passed(lane.heard, now) <= self._idle_s):
                bound = min(bound, lane.times.latest)
            elif not (lane.is_at_end or lane.is_left_out):
                lane.is_left_out = True
                log.warning(
                    "partition left out",
                    topic=partition.topic,
                    partition=partition.number,
                    reason=f"nothing has come of it for {self._idle_s:g} s",
                    effect="others go on, and its records may be late for windows and joins",
                )
        return bound

    def take(self, until_ns: int, most: int) -> list[Fetched]:
        """Take at most *most* records that may go, up to the time *until_ns*, in their order."""
        until_ns = min(until_ns, self.bound_ns)
        merged = heapq.merge(*(lane.waiting for lane in self._lanes.values()), key=itemgetter(0))
        found = list(islice(takewhile(lambda one: one.at <= until_ns, merged), most))
        for one in found:
            lane = self._lanes[partition_of(one.event)]
            lane.waiting.popleft()
            lane.size -= one.size
        return [one.event for one in found]

    def full(self, paused: Container[Partition]) -> set[Partition]:
        """Return the partitions of which no more is to come now; *paused* are those until now."""
        most = max(_LEAST_BYTES, _FULL_BYTES // max(1, len(self._lanes)))
        return {
            partition
            for partition, lane in self._lanes.items()
            if lane.size > (most // 2 if partition in paused else most)
        }
