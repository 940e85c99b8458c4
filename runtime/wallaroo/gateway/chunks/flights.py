"""Chunks that are handed out and not published yet, and the levels that they have reached.

The first stage and the first level of a chunk run as soon as it is handed out. A later level begins
once all partitions have reported the level before it, and the chunks before have begun it: so the
messages of a key reach every level in order of arrival. The first level of a chunk that is *direct*
begins like a later one: the first stage reports what it runs.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from wallaroo.gateway.chunks.pace import Pace
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.wire.chunk_messages import READER, NextLevel, Report
from wallaroo.wire.records import Outputs, Tally

_MOST_UNPUBLISHED = 64
"""Chunks that wait for the disk at most."""
_Part = tuple[int, int]
"""A level and the role of a process."""


@dataclass
class _Flight:
    """A chunk that processes work on."""

    number: int
    end: int
    isolates: bool
    size: int
    """Bytes of its messages."""
    began: float
    """When it was handed out, by the clock that does not run backwards."""
    level: int
    """The level that has begun; 0 is the first stage."""
    is_finished: bool = False
    reports: dict[_Part, Report] = field(default_factory=dict)
    sent: dict[int, dict[int, list[bytes]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """What partitions have sent, by level and partition."""
    expected: dict[int, set[int]] | None = None
    """The partitions that will report, by level; None until the reader has reported."""

    def take(self, role: int, report: Report) -> None:
        """Add what the process *role* reports."""
        self.reports[report.level, role] = report
        for level, partition, blob in report.sent:
            self.sent[level][partition].append(blob)
        if role == READER:
            self.expected = {level: set(parts) for level, parts in report.partitions.items()}

    def level_is_done(self) -> bool:
        """Whether all have reported that run the current level."""
        if self.expected is None:
            return False
        partitions = self.expected.get(self.level, set()) | self.sent.get(self.level, {}).keys()
        return all((self.level, partition) in self.reports for partition in partitions)

    def last_level(self) -> int:
        """The last level that has messages, as far as is known."""
        assert self.expected is not None
        return max([self.level, *self.expected, *self.sent])

    def next_level(self) -> NextLevel | None:
        """Begin the next level; returns what is to run, None if it has no messages."""
        assert self.expected is not None
        self.level += 1
        sent = self.sent.get(self.level, {})
        if not sent and not self.expected.get(self.level):
            return None
        return NextLevel(self.number, self.level, self.isolates, sent)

    def finished(self) -> FinishedChunk:
        """All that was reported."""
        outputs: list[Outputs] = []
        tally = Tally()
        changes: list[tuple[int, bytes]] = []
        for (_, role), report in sorted(self.reports.items()):
            outputs += report.outputs
            tally.merge(report.tally)
            if report.changes:
                changes.append((role, report.changes))
        return FinishedChunk(self.number, self.end, outputs, tally, changes, self.began)


class Flights:
    """The chunks that are under way, in order; the caller holds a lock.

    Args:
        number: Number of the last chunk that is published.

    Example:
        >>> flights = Flights(7)
        >>> flights.begin(100)
        8
        >>> flights.report(READER, Report(8, [], Tally(), partitions={1: [0]}))
        []
        >>> flights.take()
        []
        >>> flights.report(0, Report(8, [], Tally(), level=1, changes=b"record"))
        []
        >>> [chunk.changes for chunk in flights.take()]
        [[(0, b'record')]]
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._flights: deque[_Flight] = deque()
        self._finished = 0
        self._publishing = 0
        self.under_way_bytes = 0
        """Bytes of messages of the chunks that are not reported in full."""

    @property
    def last(self) -> int:
        """Number of the last chunk that has begun."""
        return self._number

    @property
    def under_way(self) -> int:
        """How many chunks are not reported in full."""
        return len(self._flights) - self._finished

    @property
    def unpublished(self) -> int:
        """How many chunks are not published."""
        return len(self._flights) + self._publishing

    def has_room(self, pace: Pace) -> bool:
        """Whether another chunk may be under way."""
        return (
            self.under_way < pace.chunks
            and self.under_way_bytes < pace.under_way_bytes
            and self.unpublished < _MOST_UNPUBLISHED
        )

    def begin(
        self, end: int, size: int = 0, *, isolates: bool = False, direct: bool = False
    ) -> int:
        """Note a new chunk of *size* bytes, up to offset *end*; its number."""
        self._number += 1
        self.under_way_bytes += size
        began, level = time.monotonic(), 0 if direct else 1
        self._flights.append(_Flight(self._number, end, isolates, size, began, level))
        return self._number

    def report(self, role: int, report: Report) -> Sequence[NextLevel]:
        """Note what the process *role* reports.

        Returns:
            What is to run now, in this order.

        Raises:
            LookupError: No such chunk is under way, or the process has reported it before.
        """
        place = report.number - self._flights[0].number if self._flights else -1
        if (
            not 0 <= place < len(self._flights)
            or (report.level, role) in self._flights[place].reports
        ):
            msg = f"process {role} reports chunk {report.number}, which is not expected"
            raise LookupError(msg)
        self._flights[place].take(role, report)
        return self._advance()

    def has_finished(self) -> bool:
        """Whether `take` gives something."""
        return bool(self._flights) and self._flights[0].is_finished

    def take(self) -> Sequence[FinishedChunk]:
        """The chunks that can be published, in order; `published` is to follow."""
        taken: list[FinishedChunk] = []
        while self.has_finished():
            taken.append(self._flights.popleft().finished())
        self._finished -= len(taken)
        self._publishing += len(taken)
        return taken

    def published(self, chunks: int) -> None:
        """Note that so many of the chunks taken are published."""
        self._publishing -= chunks

    def _advance(self) -> Sequence[NextLevel]:
        """Begin the levels that may begin."""
        begun: list[NextLevel] = []
        before: int | None = None
        """The level that the chunks before have begun; None if they need no other."""
        for flight in self._flights:
            while not flight.is_finished and flight.level_is_done():
                if flight.level >= flight.last_level():
                    flight.is_finished = True
                    self._finished += 1
                    self.under_way_bytes -= flight.size
                elif before is not None and flight.level >= before:
                    break
                elif (following := flight.next_level()) is not None:
                    begun.append(following)
            if not flight.is_finished:
                before = flight.level if before is None else min(before, flight.level)
        return begun
