"""Joins of each left message with the latest right one that is not later.

A left message waits until right ones of its time have come: until the right side has come beyond it
by more than the delay, by its messages, or was silent for the delay, by the clock. Left messages
are joined in the order of their times. A right message is kept until left ones of its time can no
longer come, by the same measure, and a left message that comes after that is late.
"""

from __future__ import annotations

from bisect import bisect_right, insort_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from wallaroo.api.durations import since_epoch_ns
from wallaroo.model.joins.base import Clock, TimedJoining
from wallaroo.model.windows import Failed, Late
from wallaroo.model.windows.base import duration, shift_readings
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited


@saved_as("AsOfRow")
@dataclass(slots=True)
class Row:
    """A message that is kept."""

    time: int
    arrived_ns: int
    message: Any


def _time_of(row: Row) -> int:
    return row.time


@saved_as("AsOfEntity")
@dataclass(slots=True)
class AsOfEntity:
    """The left messages of one key that wait, and the right ones that may be joined."""

    left: Clock = field(default_factory=Clock)
    right: Clock = field(default_factory=Clock)
    waiting: list[Row] = field(default_factory=list)
    """Left messages, by time, then by arrival."""
    values: list[Row] = field(default_factory=list)
    """Right messages, by time, then by arrival."""
    joined: int | None = None
    """Latest time of a left message that does not wait any more; None without one."""
    complete: int | None = None
    """Time before which left messages are late, as the right ones of their time were freed."""


@time_limited
@dataclass(frozen=True)
class AsOfJoin(TimedJoining):
    """Joins each left message with the latest right one that is not later.

    Example:
        >>> def shown(left, right):
        ...     return f"{left} {right}"
        >>> left = AsOfJoin(shown, False, int, int, True, tolerance_ns=10, delay_ns=5)
        >>> entity, right = left.new_entity(), left.right()
        >>> right.take(entity, "key", "1", 100, None), left.take(entity, "key", "3", 100, None)
        ([], [])
        >>> right.take(entity, "key", "2", 103, None), left.due_ns(entity)
        ([], 108)
        >>> left.tick(entity, "key", 108, None)
        ['3 2']
    """

    tolerance_ns: int
    delay_ns: int

    def __str__(self) -> str:
        kind = " (left)" if self.keeps_left else ""
        return f"as-of join{kind} within {duration(self.tolerance_ns)}"

    @property
    def by_event(self) -> bool:
        """Return True: an as-of join always uses event time."""
        return True

    @property
    def why_never_late(self) -> None:
        return

    @property
    def span_ns(self) -> int:
        return self.tolerance_ns + self.delay_ns

    def clocks(self, entity: AsOfEntity) -> tuple[Clock, Clock]:
        return entity.left, entity.right

    def new_entity(self) -> AsOfEntity:
        return AsOfEntity()

    def take(
        self,
        entity: AsOfEntity,
        key: Any,  # noqa: ARG002
        message: Any,
        arrived_ns: int,
        failed: Failed,
    ) -> list[Any]:
        """Keep the message, and join the left ones that it completes."""
        time = since_epoch_ns(self.time_of(message))
        self.forget_if_due(entity, arrived_ns)
        now_ns = max(arrived_ns, entity.left.seen_ns, entity.right.seen_ns)
        self._free(entity, now_ns)
        row = Row(time, now_ns, message)
        if self.is_left:
            if entity.complete is not None and time < entity.complete:
                raise Late
            insort_right(entity.waiting, row, key=_time_of)
            entity.left.note(time, now_ns)
        else:
            insort_right(entity.values, row, key=_time_of)
            if entity.joined is not None and time <= entity.joined:
                raise Late  # for the left messages that it did not reach; it serves later ones
            entity.right.note(time, now_ns)
        return self.settle(entity, now_ns, failed)

    def due_ns(self, entity: AsOfEntity) -> int | None:
        """Return when the clock completes a left message."""
        return self._joined_ns(entity, entity.waiting[0]) if entity.waiting else None

    def idle_ns(self, entity: AsOfEntity) -> int | None:
        """Return when a right message is freed, or the key is forgotten, if no message comes."""
        if entity.waiting:
            return None
        return self.idle_of(entity, self._freed_ns(entity, 0) if entity.values else None)

    def open_windows(self, entity: AsOfEntity) -> int:
        return len(entity.waiting) + len(entity.values)

    def shift(self, entity: AsOfEntity, by_ns: int) -> None:
        rows = (*entity.waiting, *entity.values)
        shift_readings(entity.left, entity.right, *rows, by_ns=by_ns)

    def convert_accumulators(self, entity: AsOfEntity, convert: Callable[[Any], Any]) -> AsOfEntity:
        return replace(
            entity,
            waiting=[replace(row, message=convert(row.message)) for row in entity.waiting],
            values=[replace(row, message=convert(row.message)) for row in entity.values],
        )

    def settle(self, entity: AsOfEntity, now_ns: int, failed: Failed) -> list[Any]:
        """Join the left messages that are complete, then free right ones."""
        outputs: list[Any] = []
        count = 0
        for row in entity.waiting:
            if self._joined_ns(entity, row) > now_ns:
                break
            count += 1
            outputs += self._output(entity, row, failed)
        if count:
            last = entity.waiting[count - 1].time
            entity.joined = last if entity.joined is None else max(entity.joined, last)
            del entity.waiting[:count]
        self._free(entity, now_ns)
        return outputs

    def _output(self, entity: AsOfEntity, row: Row, failed: Failed) -> list[Any]:
        place = bisect_right(entity.values, row.time, key=_time_of)
        if place and row.time - (value := entity.values[place - 1]).time <= self.tolerance_ns:
            return self.joined(row.message, value.message, failed)
        return self.unmatched(row.message, failed)

    def _joined_ns(self, entity: AsOfEntity, row: Row) -> int:
        """Return when the clock completes *row*, unless right messages have already."""
        if entity.right.latest is not None and entity.right.latest - self.delay_ns > row.time:
            return row.arrived_ns
        return max(row.arrived_ns, entity.right.seen_ns) + self.delay_ns

    def _free(self, entity: AsOfEntity, now_ns: int) -> None:
        """Free the right messages that no left one will be joined with."""
        first_waiting = entity.waiting[0].time if entity.waiting else None
        count = 0
        for number in range(len(entity.values)):
            until = self._until(entity, number)
            if first_waiting is not None and until > first_waiting:
                break
            if self._freed_ns(entity, number) > now_ns:
                break
            entity.complete = until if entity.complete is None else max(entity.complete, until)
            count += 1
        del entity.values[:count]

    def _until(self, entity: AsOfEntity, number: int) -> int:
        """Return the time from which no left message is joined with the right one *number*."""
        until = entity.values[number].time + self.tolerance_ns + 1
        if number + 1 < len(entity.values):
            until = min(until, entity.values[number + 1].time)
        return until

    def _freed_ns(self, entity: AsOfEntity, number: int) -> int:
        """Return when the clock frees the right message *number*, unless left ones already have."""
        value = entity.values[number]
        left = entity.left
        if left.latest is not None and left.latest - self.delay_ns >= self._until(entity, number):
            return value.arrived_ns
        due = max(value.arrived_ns, left.seen_ns) + self.tolerance_ns + 1
        if number + 1 < len(entity.values):
            due = min(due, max(entity.values[number + 1].arrived_ns, left.seen_ns))
        return due + self.delay_ns
