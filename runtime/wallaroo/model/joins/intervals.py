"""Joins of all pairs whose times are near each other.

A message is kept until no message of the other side can match it any more: until the other side has
come beyond the bound and the delay, by its messages, or was silent for as long, by the clock. The
messages of a side are freed in the order of their times. A message is late if one of the other side
was freed that it might have matched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from wallaroo.api.durations import since_epoch_ns
from wallaroo.model.joins.base import Clock, TimedJoining
from wallaroo.model.windows import Failed, Late
from wallaroo.model.windows.base import duration, shift_readings
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited


@saved_as("IntervalRow")
@dataclass(slots=True)
class Row:
    """A message that is kept."""

    time: int
    arrived_ns: int
    is_matched: bool
    message: Any


def _time_of(row: Row) -> int:
    return row.time


@saved_as("IntervalSide")
@dataclass(slots=True)
class Kept:
    """What is kept of one side of a key."""

    clock: Clock
    rows: list[Row] = field(default_factory=list)
    """By time, then by arrival."""
    freed: int | None = None
    """Latest time of a message that was freed; None if none was."""


@saved_as("IntervalEntity")
@dataclass(slots=True)
class IntervalEntity:
    """The messages of one key that may still be joined."""

    left: Kept = field(default_factory=lambda: Kept(Clock()))
    right: Kept = field(default_factory=lambda: Kept(Clock()))


@time_limited
@dataclass(frozen=True)
class IntervalJoin(TimedJoining):
    """Joins all pairs whose times are near each other.

    Example:
        >>> from wallaroo.model.joins import arrival
        >>> def shown(left, right):
        ...     return f"{left}{right or '-'}"
        >>> left = IntervalJoin(shown, True, arrival, arrival, True, False, 0, 10, 0)
        >>> entity, right = left.new_entity(), left.right()
        >>> left.take(entity, "key", "a", 1, None), left.take(entity, "key", "b", 5, None)
        ([], [])
        >>> left.due_ns(entity), left.tick(entity, "key", 12, None)
        (12, ['a-'])
        >>> right.take(entity, "key", "c", 15, None), left.due_ns(entity)
        (['bc'], 16)
    """

    by_event: bool
    """Whether event time is used."""
    before_ns: int
    after_ns: int
    delay_ns: int

    def __str__(self) -> str:
        kind = " (left)" if self.keeps_left else ""
        before, after = (duration(ns) if ns else "0 s" for ns in (self.before_ns, self.after_ns))
        return f"interval join{kind}, {before} before to {after} after"

    @property
    def why_never_late(self) -> str | None:
        """Time of arrival is never late."""
        if self.by_event:
            return None
        return "without left_time and right_time, the time of arrival counts, which is never late"

    @property
    def span_ns(self) -> int:
        return self.before_ns + self.after_ns + self.delay_ns

    def clocks(self, entity: IntervalEntity) -> tuple[Clock, Clock]:
        return entity.left.clock, entity.right.clock

    def new_entity(self) -> IntervalEntity:
        return IntervalEntity()

    def take(
        self,
        entity: IntervalEntity,
        key: Any,  # noqa: ARG002
        message: Any,
        arrived_ns: int,
        failed: Failed,
    ) -> list[Any]:
        """Join the message with those that are kept, and free those that it completes."""
        given = self.time_of(message)
        self.forget_if_due(entity, arrived_ns)
        now_ns = max(arrived_ns, entity.left.clock.seen_ns, entity.right.clock.seen_ns)
        outputs = self.settle(entity, now_ns, failed)
        time = since_epoch_ns(given) if self.by_event else now_ns
        own, other = self._sides(entity)
        earliest, latest = self._matched_by(time)
        if other.freed is not None and other.freed >= earliest and self.by_event:
            raise Late
        row = Row(time, now_ns, is_matched=False, message=message)
        insort_right(own.rows, row, key=_time_of)
        own.clock.note(time, now_ns)
        start = bisect_left(other.rows, earliest, key=_time_of)
        end = bisect_right(other.rows, latest, key=_time_of)
        for match in other.rows[start:end]:
            row.is_matched = match.is_matched = True
            left, right = (row, match) if self.is_left else (match, row)
            outputs += self.joined(left.message, right.message, failed)
        return outputs + self.settle(entity, now_ns, failed)

    def due_ns(self, entity: IntervalEntity) -> int | None:
        """Return when the clock frees a left message, if it then is an output."""
        return self._left_due_ns(entity) if self.keeps_left else None

    def idle_ns(self, entity: IntervalEntity) -> int | None:
        """Return when a message is freed, or the key is forgotten, if no message comes."""
        if self.due_ns(entity) is not None:
            return None
        left, right = self._left_due_ns(entity), None
        if entity.right.rows:
            right = self._due_ns(entity.right.rows[0], entity.left.clock, self.before_ns)
        dues = [due for due in (left, right) if due is not None]
        return self.idle_of(entity, min(dues, default=None))

    def _left_due_ns(self, entity: IntervalEntity) -> int | None:
        if not entity.left.rows:
            return None
        return self._due_ns(entity.left.rows[0], entity.right.clock, self.after_ns)

    def open_windows(self, entity: IntervalEntity) -> int:
        return len(entity.left.rows) + len(entity.right.rows)

    def watermark(self, entity: IntervalEntity) -> int | None:
        return super().watermark(entity) if self.by_event else None

    def forgotten_ns(self, entity: IntervalEntity) -> int | None:
        return super().forgotten_ns(entity) if self.by_event else None

    def shift(self, entity: IntervalEntity, by_ns: int) -> None:
        for side in (entity.left, entity.right):
            shift_readings(side.clock, *side.rows, by_ns=by_ns)

    def convert_accumulators(
        self, entity: IntervalEntity, convert: Callable[[Any], Any]
    ) -> IntervalEntity:
        sides = (
            replace(side, rows=[replace(row, message=convert(row.message)) for row in side.rows])
            for side in (entity.left, entity.right)
        )
        return IntervalEntity(*sides)

    def _sides(self, entity: IntervalEntity) -> tuple[Kept, Kept]:
        """Return the side of the messages of this step, and the other one."""
        sides = (entity.left, entity.right)
        return sides if self.is_left else (sides[1], sides[0])

    def _matched_by(self, time: int) -> tuple[int, int]:
        """Return the earliest and the latest time that a message of *time* of this side matches."""
        before, after = self.before_ns, self.after_ns
        return (time - before, time + after) if self.is_left else (time - after, time + before)

    def settle(self, entity: IntervalEntity, now_ns: int, failed: Failed) -> list[Any]:
        """Free what no message can match any more; returns outputs of unmatched left messages."""
        outputs: list[Any] = []
        for row in self._freed(entity.left, entity.right.clock, self.after_ns, now_ns):
            if not row.is_matched:
                outputs += self.unmatched(row.message, failed)
        self._freed(entity.right, entity.left.clock, self.before_ns, now_ns)
        return outputs

    def _freed(self, own: Kept, other: Clock, bound_ns: int, now_ns: int) -> list[Row]:
        count = 0
        for row in own.rows:
            if self._due_ns(row, other, bound_ns) > now_ns:
                break
            count += 1
        freed = own.rows[:count]
        if freed:
            del own.rows[:count]
            own.freed = freed[-1].time if own.freed is None else max(own.freed, freed[-1].time)
        return freed

    def _due_ns(self, row: Row, other: Clock, bound_ns: int) -> int:
        """Return when the clock frees *row*, unless the *other* side has come beyond it already."""
        if not self.by_event:
            return row.arrived_ns + bound_ns + 1
        if other.latest is not None and other.latest - self.delay_ns > row.time + bound_ns:
            return row.arrived_ns
        return max(row.arrived_ns, other.seen_ns) + bound_ns + self.delay_ns + 1
