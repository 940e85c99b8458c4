"""Records of the partitions of a topic, in the order of their times.

Brokers deliver a megabyte of one partition before the next, so records wait here until each
partition has come as far, or has no more. Those of a partition keep their order: a record whose
time is earlier than that of one before it goes with that one.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import structlog

from wallaroo.model.order import END, Timeline

if TYPE_CHECKING:
    from wallaroo.connectors.kafka.fetch import Fetched

_FULL_BYTES = 32 * 1024**2
"""Bytes that wait at most, about, in all partitions together."""
_LEAST_BYTES = 256 * 1024
"""Bytes of a partition that may wait in any case."""
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
        """Whether the brokers have no more of it."""
        self.is_left_out = False
        """Whether the others have stopped waiting for it."""

    def add(self, event: Fetched, at: int | None, heard: float) -> None:
        """Let a record wait, or an event."""
        size = _PER_RECORD + len(event.value() or b"")
        self.waiting.append(_Waiting(self.times.reached(at), event, size))
        self.size += size
        self.heard = heard
        self.is_left_out = False

    def holds_up(self, now: float, idle_s: float) -> bool:
        """Whether records of other partitions must not pass the last one of this."""
        return not self.is_at_end and (bool(self.waiting) or now - self.heard <= idle_s)


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
        partitions: Iterable[int],
        times_of: TimesOf,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._times_of, self._idle_s, self._clock = times_of, idle_s, clock
        self._lanes: dict[int, _Lane] = {}
        self.open(partitions)

    def open(self, partitions: Iterable[int]) -> None:
        """Wait for records of new *partitions* as well."""
        self._lanes |= {partition: _Lane(self._clock()) for partition in partitions}

    def add(self, events: Sequence[Fetched], end_of: Callable[[int], int]) -> None:
        """Let records wait, and events of errors and ends of partitions.

        Args:
            events: The records and events, as they have come.
            end_of: Tells where a partition ends.
        """
        times = iter(self._times_of([event for event in events if event.error() is None]))
        now = self._clock()
        for event in events:
            at = next(times) if event.error() is None else None
            self._lanes[event.partition() or 0].add(event, at, now)
        for partition, last in {event.partition() or 0: event for event in events}.items():
            lane = self._lanes[partition]
            lane.next = (last.offset() or 0) + (last.error() is None)
            lane.is_at_end = last.error() is not None or lane.next >= end_of(partition)

    @property
    def at_end(self) -> list[int]:
        """The partitions that were at their ends when they were heard of."""
        return [partition for partition, lane in self._lanes.items() if lane.is_at_end]

    def note_ends(self, ends: Mapping[int, int]) -> None:
        """Note the current end offsets of partitions, as reported by the brokers."""
        for partition, end in ends.items():
            lane = self._lanes[partition]
            lane.is_at_end, lane.heard = lane.next >= end, self._clock()

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
        now, bound = self._clock(), END
        for partition, lane in self._lanes.items():
            if lane.holds_up(now, self._idle_s):
                bound = min(bound, lane.times.latest)
            elif not (lane.is_at_end or lane.is_left_out):
                lane.is_left_out = True
                log.warning(
                    "partition left out",
                    partition=partition,
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
            lane = self._lanes[one.event.partition() or 0]
            lane.waiting.popleft()
            lane.size -= one.size
        return [one.event for one in found]

    def full(self, paused: Container[int]) -> set[int]:
        """Return the partitions of which no more is to come now; *paused* are those until now."""
        most = max(_LEAST_BYTES, _FULL_BYTES // max(1, len(self._lanes)))
        return {
            partition
            for partition, lane in self._lanes.items()
            if lane.size > (most // 2 if partition in paused else most)
        }
