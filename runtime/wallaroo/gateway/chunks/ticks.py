"""Ticks of a real-time query: one is due whenever the next window closes."""

from __future__ import annotations

from collections.abc import Sequence

from wallaroo.gateway.journal.alarm import Alarm
from wallaroo.wire.records import TICK_SOURCE, Block, Schedule, Tally

_AT_ONCE = 0
"""Time of a tick if it is not known which windows must close, so that all partitions report."""


class Ticks:
    """Sets the alarm of the journal, for one tick at a time.

    Args:
        alarm: The alarm.
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._schedule = Schedule()
        self._asked = False
        """Whether it is set for a tick, or was for one that is not published."""
        self._chunk: int | None = None
        """Number of the chunk that has it; None if it is not handed out."""

    def ask_at_once(self) -> None:
        """Ask for a tick now."""
        self._ask(_AT_ONCE)

    def handed_out(self, number: int, messages: Sequence[Block]) -> None:
        """Note that *messages* are the chunk *number*."""
        if any(one.source == TICK_SOURCE for one in messages):
            self._chunk = number

    def published(self, number: int, tally: Tally) -> None:
        """Note that chunks up to *number* are published, whose *tally* says what is due when."""
        self._schedule.note(tally)
        if self._chunk is not None and number >= self._chunk:
            self._asked, self._chunk = False, None
        if self._asked and not self._alarm.is_set:
            return  # a tick is under way: what is due now may not be due after it
        next_ns = self._schedule.next_ns
        if next_ns is not None or self._asked:
            self._ask(next_ns, has_outputs=self._schedule.has_outputs)

    def _ask(self, at_ns: int | None, *, has_outputs: bool = True) -> None:
        self._asked = at_ns is not None
        self._alarm.set(at_ns, has_outputs=has_outputs)
