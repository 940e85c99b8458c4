"""Chunks that are handed out and not published yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from wallaroo.dataflow.records import Outputs, Tally
from wallaroo.engine.realtime.messages import READER, Report
from wallaroo.gateway.outbox.chunks import FinishedChunk


@dataclass
class _Flight:
    """A chunk that processes work on."""

    number: int
    end: int
    began: float
    """When it was handed out, by the clock that does not run backwards."""
    reports: dict[int, Report] = field(default_factory=dict)
    """By the role of the process."""

    def is_finished(self) -> bool:
        """Whether all have reported from which the reader expects reports."""
        first = self.reports.get(READER)
        return first is not None and all(part in self.reports for part in first.partitions)

    def finished(self) -> FinishedChunk:
        """All that was reported."""
        outputs: list[Outputs] = []
        tally = Tally()
        changes: list[tuple[int, bytes]] = []
        for role, report in sorted(self.reports.items()):
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
        >>> flights.report(READER, Report(8, [], Tally(), partitions=(0,)))
        >>> flights.take()
        []
        >>> flights.report(0, Report(8, [], Tally(), changes=b"record"))
        >>> [chunk.changes for chunk in flights.take()]
        [[(0, b'record')]]
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._flights: deque[_Flight] = deque()
        self._finished: set[int] = set()
        self._publishing = 0

    @property
    def last(self) -> int:
        """Number of the last chunk that has begun."""
        return self._number

    @property
    def under_way(self) -> int:
        """How many chunks are not reported in full."""
        return len(self._flights) - len(self._finished)

    @property
    def unpublished(self) -> int:
        """How many chunks are not published."""
        return len(self._flights) + self._publishing

    def begin(self, end: int) -> int:
        """Note a new chunk, up to offset *end*; its number."""
        self._number += 1
        self._flights.append(_Flight(self._number, end, time.monotonic()))
        return self._number

    def report(self, role: int, report: Report) -> None:
        """Note what the process *role* reports.

        Raises:
            LookupError: No such chunk is under way, or the process has reported it before.
        """
        place = report.number - self._flights[0].number if self._flights else -1
        if not 0 <= place < len(self._flights) or role in self._flights[place].reports:
            msg = f"process {role} reports chunk {report.number}, which is not expected"
            raise LookupError(msg)
        flight = self._flights[place]
        flight.reports[role] = report
        if flight.is_finished():
            self._finished.add(flight.number)

    def has_finished(self) -> bool:
        """Whether `take` gives something."""
        return bool(self._flights) and self._flights[0].number in self._finished

    def take(self) -> Sequence[FinishedChunk]:
        """The chunks that can be published, in order; `published` is to follow."""
        taken: list[FinishedChunk] = []
        while self.has_finished():
            flight = self._flights.popleft()
            self._finished.discard(flight.number)
            taken.append(flight.finished())
        self._publishing += len(taken)
        return taken

    def published(self, chunks: int) -> None:
        """Note that so many of the chunks taken are published."""
        self._publishing -= chunks
