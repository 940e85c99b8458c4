"""Windows that a pause ends.

A session contains messages of which each is less than the gap away from the next. It ends a gap
after its last message, and closes when the key's watermark reaches its end plus the delay. A
message is late if a session of this message alone would have closed, unless it belongs to a session
that is still open.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wallaroo.api.aggregations import Window
from wallaroo.model.windows.base import duration
from wallaroo.model.windows.times import TimeWindows, fresh_of
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited


@saved_as("OpenSession")
@dataclass(slots=True)
class OpenSession:
    """An open session."""

    start: int
    """Time of its first message."""
    last: int
    """Time of its last message."""
    accumulator: Any


@saved_as("SessionEntity")
@dataclass(slots=True)
class SessionEntity:
    """The open sessions of one key."""

    watermark: int | None = None
    latest: int = 0
    """Latest event time."""
    seen_ns: int = 0
    """Wall clock at the arrival of the last message."""
    sessions: list[OpenSession] = field(default_factory=list)
    """The open sessions, in order; the gap or more lies between them."""
    # saved only if they are set, as with windows of a period of time
    fresh: dict[int, int] = field(init=False, repr=False, compare=False)
    """Messages that no result contains, by start of their session; unset without early results."""
    early_ns: int | None = field(init=False, repr=False, compare=False)
    """Wall clock at which early results are due; may be unset."""


@time_limited
@dataclass(frozen=True)
class SessionWindows(TimeWindows):
    """Windows that a pause ends."""

    gap_ns: int

    def __str__(self) -> str:
        return f"sessions with gaps of {duration(self.gap_ns)}"

    @property
    def kind(self) -> str:
        return "session"

    def new_entity(self) -> SessionEntity:
        return SessionEntity()

    def is_disposable(self, entity: SessionEntity) -> bool:
        """Whether no session is open and no message can be late."""
        return self.event_time is None and not entity.sessions

    def open_windows(self, entity: SessionEntity) -> int:
        return len(entity.sessions)

    def convert_accumulators(
        self, entity: SessionEntity, convert: Callable[[Any], Any]
    ) -> SessionEntity:
        converted = copy.copy(entity)
        converted.sessions = [
            OpenSession(session.start, session.last, convert(session.accumulator))
            for session in entity.sessions
        ]
        return converted

    def next_close(self, entity: SessionEntity) -> int | None:
        """Return the watermark at which the first session closes."""
        sessions = entity.sessions
        return self._close_of(sessions[0]) if sessions else None

    def is_late(self, entity: SessionEntity, event: int, watermark: int) -> bool:
        """Whether it would be a session that has closed, and belongs to no open one."""
        if event + self.gap_ns + self.delay_ns > watermark:
            return False
        first, end = self._joined(entity, event)
        return first == end

    def alone(self, event: int) -> Window:
        """Return the session of *event* alone."""
        return Window(event, event + self.gap_ns)

    def gather(
        self, entity: SessionEntity, message: Any, event: int, watermark: int, *, late: bool
    ) -> Sequence[int]:
        """Aggregate the message in the session that it belongs to, or opens, or joins of two."""
        if late and entity.sessions:
            oldest = entity.sessions[0]
            self.aggregation.update(message, oldest.accumulator)
            return (oldest.start,)
        if late:  # the oldest time of which a session would be open
            event = watermark - self.gap_ns - self.delay_ns + 1
        first, end = self._joined(entity, event)
        joined = entity.sessions[first:end]
        if len(joined) == 1 and joined[0].start <= event:  # as most messages do
            self.aggregation.update(message, joined[0].accumulator)
            joined[0].last = max(joined[0].last, event)
            return (joined[0].start,)
        if not joined:
            accumulator = self.aggregation.initial_accumulator()
        else:
            accumulator = joined[0].accumulator
            for session in joined[1:]:
                accumulator = self.aggregation.combine(accumulator, session.accumulator)
        self.aggregation.update(message, accumulator)
        start = min([event, *(session.start for session in joined)])
        last = max([event, *(session.last for session in joined)])
        entity.sessions[first:end] = [OpenSession(start, last, accumulator)]
        if fresh := fresh_of(entity):
            count = sum(fresh.pop(session.start, 0) for session in joined)
            if count:
                fresh[start] = count
        return (start,)

    def closing(self, entity: SessionEntity, watermark: int) -> Sequence[int]:
        return [s.start for s in entity.sessions if self._close_of(s) <= watermark]

    def remove_closed(self, entity: SessionEntity, watermark: int) -> None:
        entity.sessions = [s for s in entity.sessions if self._close_of(s) > watermark]

    def end(self, entity: SessionEntity, start: int) -> int:
        return self._session(entity, start).last + self.gap_ns

    def accumulator(self, entity: SessionEntity, start: int) -> Any:
        return self._session(entity, start).accumulator

    def _joined(self, entity: SessionEntity, event: int) -> tuple[int, int]:
        """Return the range of indices of the sessions that a message of time *event* belongs to."""
        sessions = entity.sessions
        end = bisect_left(sessions, event + self.gap_ns, key=_start_of)
        first = end
        while first and event < sessions[first - 1].last + self.gap_ns:
            first -= 1
        return first, end

    def _session(self, entity: SessionEntity, start: int) -> OpenSession:
        return entity.sessions[bisect_left(entity.sessions, start, key=_start_of)]

    def _close_of(self, session: OpenSession) -> int:
        return session.last + self.gap_ns + self.delay_ns


def _start_of(session: OpenSession) -> int:
    return session.start
