"""Joins of one key, worked out from the definitions for each message anew, and nothing clever."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Kind(NamedTuple):
    """What a join is."""

    kind: str
    """`table`, `asof` or `interval`."""
    keeps_left: bool
    by_event: bool
    before: int = 0
    """Tolerance, for an as-of join; time to live, for a table join (0 for none)."""
    after: int = 0
    delay: int = 0
    deletes: bool = False
    """Whether each third right message of a table deletes the one before it."""


@dataclass
class Message:
    """A message that has come."""

    id: int
    time: int
    arrived: int
    is_joined: bool = False
    is_freed: bool = False


@dataclass
class Side:
    """One side of a key."""

    messages: list[Message] = field(default_factory=list)
    latest: int | None = None
    seen: int = 0

    def note(self, message: Message) -> None:
        self.messages.append(message)
        self.latest = message.time if self.latest is None else max(self.latest, message.time)
        self.seen = message.arrived

    def kept(self) -> list[Message]:
        return sorted(
            (message for message in self.messages if not message.is_freed),
            key=lambda message: message.time,
        )


class ByHand:
    """One key.

    Args:
        kind: The join.
        late: Ids of messages that are late, for an as-of join; others are found out.
    """

    def __init__(self, kind: Kind, late: set[int]) -> None:
        self.kind = kind
        self.said: list[str] = []
        self.late: list[int] = []
        self._is_late = late
        self._left, self._right = Side(), Side()

    def take(self, *, is_left: bool, number: int, event: int, now: int) -> None:
        self.clock(now)
        message = Message(number, event if self.kind.by_event else now, now)
        take = {"table": self._table, "asof": self._asof, "interval": self._interval}
        take[self.kind.kind](message, is_left)

    def clock(self, now: int) -> None:
        """Do what is due by *now*."""
        if self.kind.kind == "interval":
            self._free_pairs(now)
        elif self.kind.kind == "asof":
            self._join_waiting(now)

    def _say(self, left: Message, right: Message | None) -> None:
        if right is not None:
            left.is_joined = True
        if right is not None or self.kind.keeps_left:
            self.said.append(f"{left.id}+{'' if right is None else right.id}")

    def _table(self, message: Message, is_left: bool) -> None:
        ttl, idle_from = self.kind.before, max(self._left.seen, self._right.seen)
        if ttl and message.arrived - idle_from >= ttl:
            self._right.messages.clear()
        if is_left:
            self._say(message, self._right.messages[-1] if self._right.messages else None)
        (self._left if is_left else self._right).note(message)
        if self.kind.deletes and not is_left and message.id % 3 == 0:
            self._right.messages.clear()

    def _interval(self, message: Message, is_left: bool) -> None:
        before, after, _ = self.kind.before, self.kind.after, self.kind.delay
        own, other = (self._left, self._right) if is_left else (self._right, self._left)
        below, above = (before, after) if is_left else (after, before)
        if self.kind.by_event and any(
            one.is_freed and one.time >= message.time - below for one in other.messages
        ):
            self.late.append(message.id)
            return
        for one in other.kept():
            if message.time - below <= one.time <= message.time + above:
                one.is_joined = message.is_joined = True
                self._say(*((message, one) if is_left else (one, message)))
        own.note(message)
        self._free_pairs(message.arrived)

    def _free_pairs(self, now: int) -> None:
        for own, other, bound in (
            (self._left, self._right, self.kind.after),
            (self._right, self._left, self.kind.before),
        ):
            for one in own.kept():
                beyond = other.latest is not None and (
                    other.latest - self.kind.delay > one.time + bound
                )
                silent_from = max(one.arrived, other.seen) if self.kind.by_event else one.arrived
                silent = now - silent_from > bound + self.kind.delay
                if not silent and not (beyond and self.kind.by_event):
                    break
                one.is_freed = True
                if own is self._left and not one.is_joined:
                    self._say(one, None)

    def _asof(self, message: Message, is_left: bool) -> None:
        if is_left and message.id in self._is_late:
            self.late.append(message.id)
            return
        if not is_left:
            joined = [one.time for one in self._left.messages if one.is_freed]
            if joined and message.time <= max(joined):
                self.late.append(message.id)
                self._right.messages.append(message)
                return
        (self._left if is_left else self._right).note(message)
        self._join_waiting(message.arrived)

    def _join_waiting(self, now: int) -> None:
        for one in self._left.kept():
            latest = self._right.latest
            beyond = latest is not None and latest - self.kind.delay > one.time
            if not beyond and now - max(one.arrived, self._right.seen) < self.kind.delay:
                break
            one.is_freed = True
            of_its_time = [
                right
                for right in self._right.kept()
                if one.time - self.kind.before <= right.time <= one.time
            ]
            self._say(one, of_its_time[-1] if of_its_time else None)
