"""Turns of sources whose messages meet in steps with event time: the one with the earliest goes.

A source that has nothing to deliver at the moment holds nobody up, if it has looked just now: all
may have stood still. For one that has something, and does not deliver it, the others wait for a
while.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from wallaroo.gateway.silence import SURE_NS, Reading, Silence
from wallaroo.gateway.standstills import Standstills
from wallaroo.gateway.tables import Tables
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Source
from wallaroo.model.order import BEGINNING, END, is_timed, meeting_sources

SURE_S = SURE_NS / 1e9
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
    waited_ns: int | None = None
    """For how long its messages were waited for in all, if nothing else tells how far it is."""

    def is_idle(self, now: float, clock: Standstills) -> bool:
        """Whether others are not to wait for it any more."""
        return not self.waits and clock.passed(self.heard, now) > self.idle_s

    def reading(self, now: float, clock: Standstills) -> int | None:
        """How far it is read; None if it has no more, or is left out."""
        if self.at is None:
            return None if self.waited_ns or now - self.heard <= SURE_S else BEGINNING
        if self.is_idle(now, clock):
            return None
        return self.waited_ns or self.at


class Turn:
    """The part of one source; for its thread.

    Args:
        members: All sources that meet, by index.
        index: Index of this one.
        changed: Held while *members* are used, and notified of changes.
        clock: The clock of all of them.
        on_change: Called before and after the state of this source changes.
    """

    def __init__(
        self,
        members: Mapping[int, _Member],
        index: int,
        changed: threading.Condition,
        clock: Standstills,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_change = on_change
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
            self._own.waits, self._own.heard = False, self._clock.now()
            return self._limit()

    def reads(self, at: int) -> None:
        """Note that this source may have more, none of it before *at*."""
        with self._changed:
            self._tell(at)

    def rests(self, looked: float | None = None) -> None:
        """Note that this source had nothing to deliver when it *looked*; None for now."""
        looked = self._clock.now() if looked is None else looked
        if self._own.at is None and looked - self._own.heard < SURE_S / 2:
            self._own.heard = looked
            return
        with self._changed:
            self._tell(None)
            self._own.heard = looked

    def came(self, waited_s: float) -> None:
        """Note that a message came, of a source that is alone, which was waited for."""
        if waited_s:
            self._own.waited_ns = (self._own.waited_ns or 0) + int(waited_s * 1e9)
        if self._own.at is None:
            self.reads(BEGINNING)

    def ends(self) -> None:
        """Note that this source has nothing to deliver any more."""
        self.rests(math.inf)

    def goes_on(self) -> None:
        """Note that this source is delivering, if it is."""
        if self._own.at is not None:
            self._own.heard = self._clock.now()

    def _tell(self, at: int | None, *, waits: bool = False) -> None:
        own = self._own
        self._on_change()
        own.at, own.waits, own.heard = at, waits, self._clock.now()
        own.is_left_out = False
        self._on_change()
        self._changed.notify_all()

    def _limit(self) -> int:
        now = self._clock.now()
        others = (m for m in self._others if m.at is not None or now - m.heard > SURE_S)
        return min(
            (BEGINNING if m.at is None else m.at for m in others if self._counts(m, now)),
            default=END,
        )

    def _counts(self, member: _Member, now: float) -> bool:
        if not member.is_idle(now, self._clock):
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
    application: Application,
    silence: Silence,
    tables: Tables,
    clock: Callable[[], float] = time.monotonic,
) -> dict[int, Turn]:
    """Return the turns of sources whose messages meet in steps with event time, by their indices.

    Those that are read in the order of time have them together, each other one that is read has its
    own. *silence* learns of all of them.
    """
    found, sources, looks = dict[int, Turn](), application.sources, Standstills(clock)
    for meeting in meeting_sources(application):
        indices = sorted(meeting)
        in_order = [index for index in indices if is_timed(sources[index])]
        alone = [index for index in indices if not (index in in_order or sources[index].listens)]
        sets = [members_of(one, sources, looks) for one in (in_order, *([i] for i in alone)) if one]
        logs: list[Reading] = [
            functools.partial(_reading, list(members.values()), looks) for members in sets
        ]
        held_by_tables = tables.holds(indices)
        logs += [] if held_by_tables is None else [held_by_tables]
        held = silence.watch(indices, logs).held
        for members in sets:
            found |= turns_among(members, looks, held)
    return found


def members_of(
    indices: Iterable[int], sources: Sequence[Source], clock: Standstills
) -> dict[int, _Member]:
    """Return what is known of the *sources* with these *indices*, for `turns_among`."""
    return {
        index: _Member(sources[index].name, sources[index].idle_ns / 1e9, clock.now())
        for index in indices
    }


def turns_among(
    members: Mapping[int, _Member],
    clock: Standstills,
    on_change: Callable[[], object] = lambda: None,
) -> dict[int, Turn]:
    """Return the turns of *members*, which are read together in the order of time."""
    changed = threading.Condition()
    return {index: Turn(members, index, changed, clock, on_change) for index in members}


def _reading(members: Sequence[_Member], clock: Standstills) -> int | None:
    now = clock.now()
    found = [at for member in members if (at := member.reading(now, clock)) is not None]
    return min(found, default=None)
