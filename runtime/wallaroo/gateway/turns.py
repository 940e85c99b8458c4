"""Turns of sources whose messages meet in steps with event time: the one with the earliest goes.

A source that has nothing to deliver at the moment holds nobody up, if it has looked just now: all
may have stood still. For one that has something, and does not deliver it, the others wait for a
while.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from wallaroo.model.application import Application
from wallaroo.model.endpoints import Source
from wallaroo.model.order import BEGINNING, END, sources_in_order

SURE_S = 1.0
"""Seconds for which it holds that a source has nothing to deliver, if it does not look again."""

log = structlog.get_logger("wallaroo.gateway")


@dataclass
class _Member:
    """A source among those that meet."""

    name: str
    idle_s: float
    heard: float
    """Time of its last report, or of its last look for messages, by a monotonic clock."""
    at: int | None = BEGINNING
    """The time that none of its next messages is before; None if it has nothing to deliver."""
    waits: bool = False
    """Whether it has a message, and waits for its turn."""
    is_left_out: bool = False
    """Whether the others have stopped waiting for it."""


class Turn:
    """The part of one source; for its thread.

    Args:
        members: All sources that meet, by index.
        index: Index of this one.
        changed: Held while *members* are used, and notified of changes.
        clock: Returns seconds, of a clock that does not jump.
    """

    def __init__(
        self,
        members: Mapping[int, _Member],
        index: int,
        changed: threading.Condition,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own = members[index]
        self._others = [member for other, member in members.items() if other != index]
        self._changed, self._clock = changed, clock

    @property
    def is_alone(self) -> bool:
        """Whether there are no other sources."""
        return not self._others

    def limit(self, at: int, wait_s: float = 0.0) -> int:
        """Return up to which time this source may deliver now.

        If that is before *at*, the time of its next message, it waits for at most *wait_s*.
        """
        with self._changed:
            self._tell(at, waits=True)
            self._changed.wait_for(lambda: self._limit() >= at, wait_s)
            self._own.waits, self._own.heard = False, self._clock()
            return self._limit()

    def reads(self, at: int) -> None:
        """Note that this source may have more, none of it before *at*."""
        with self._changed:
            self._tell(at)

    def rests(self, looked: float | None = None) -> None:
        """Note that this source had nothing to deliver when it *looked*; None for now."""
        looked = self._clock() if looked is None else looked
        if self._own.at is None and looked - self._own.heard < SURE_S / 2:
            self._own.heard = looked
            return
        with self._changed:
            self._tell(None)
            self._own.heard = looked

    def ends(self) -> None:
        """Note that this source has nothing to deliver any more."""
        self.rests(math.inf)

    def goes_on(self) -> None:
        """Note that this source is delivering, if it is."""
        if self._own.at is not None:
            self._own.heard = self._clock()

    def _tell(self, at: int | None, *, waits: bool = False) -> None:
        own = self._own
        own.at, own.waits, own.heard = at, waits, self._clock()
        own.is_left_out = False
        self._changed.notify_all()

    def _limit(self) -> int:
        now = self._clock()
        others = (m for m in self._others if m.at is not None or now - m.heard > SURE_S)
        return min(
            (BEGINNING if m.at is None else m.at for m in others if _counts(m, now)), default=END
        )


def _counts(member: _Member, now: float) -> bool:
    if member.waits or now - member.heard <= member.idle_s:
        return True
    if not member.is_left_out:
        member.is_left_out = True
        log.warning(
            "source left out",
            source=member.name,
            reason=f"it has not delivered for {member.idle_s:g} s what it may have",
            effect="others go on, and what it delivers later may be late for windows and joins",
        )
    return False


def turns_of(
    application: Application, clock: Callable[[], float] = time.monotonic
) -> dict[int, Turn]:
    """Return the turn of each source that is to be read in the order of time, by its index."""
    found = dict[int, Turn]()
    for indices in sources_in_order(application):
        found |= turns_among(sorted(indices), application.sources, clock)
    return found


def turns_among(
    indices: Iterable[int], sources: Sequence[Source], clock: Callable[[], float]
) -> dict[int, Turn]:
    """Return the turns of the *sources* with these *indices*, which meet."""
    members = {
        index: _Member(sources[index].name, sources[index].idle_ns / 1e9, clock())
        for index in indices
    }
    changed = threading.Condition()
    return {index: Turn(members, index, changed, clock) for index in members}
