"""The clock by which each state measures how long its keys have been silent.

For states with event time it stands still while messages may wait to be read: the gateway says for
how long that was, with each message and each reading of the clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from wallaroo.dataflow.packing import Stamp
from wallaroo.dataflow.program import Program

_FIRST_NS, _LONGEST_NS = 20_000_000, 1_000_000_000
"""Pause, at first and at most, before it is looked again at what a clock that stands keeps from
being due."""


class Clocks:
    """The clocks of the states of a bucket.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self._by_event, self._source_of = program.by_event, program.source_of
        self._held: dict[int, int] = {}
        """For how long the clock of a state has stood still, as last said."""
        self._ticked: dict[int, int] = {}
        """The same, at the last tick."""
        self._pauses: dict[int, int] = {}
        self._earliest: dict[int, int] = {}
        """When it is worthwhile to look again, by the wall clock."""

    def now(self, number: int, stamp: Stamp) -> int:
        """The clock of the state *number* when the message with *stamp* arrived."""
        if number not in self._by_event:
            return stamp[1]
        self._held[number] = stamp[2]
        self._earliest.pop(number, None)
        return stamp[1] - stamp[2]

    def tick(self, number: int, tick: Stamp, held: Mapping[int, int]) -> tuple[Stamp, int]:
        """The stamp of a tick of the state *number*, and its clock.

        Args:
            number: Number of the state.
            tick: Offset and wall clock of the tick.
            held: For how long each source was held.
        """
        of_source = held.get(self._source_of[number], 0)
        stamp = (*tick, of_source)
        if number not in self._by_event:
            return stamp, tick[1]
        pause = 0
        if of_source > self._ticked.get(number, of_source):
            pause = min(max(_FIRST_NS, 2 * self._pauses.get(number, 0)), _LONGEST_NS)
        self._held[number] = self._ticked[number] = of_source
        self._pauses[number], self._earliest[number] = pause, tick[1] + pause
        return stamp, tick[1] - of_source

    def last(self, number: int, wall_ns: int) -> int:
        """The clock of the state when the wall clock shows *wall_ns*, as far as is known."""
        return wall_ns - self._held.get(number, 0)

    def wall(self, number: int, due_ns: int | None) -> int | None:
        """The wall clock before which the clock of the state does not show *due_ns*."""
        if due_ns is None or number not in self._by_event:
            return due_ns
        return max(due_ns + self._held.get(number, 0), self._earliest.get(number, 0))
