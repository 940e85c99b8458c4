"""The semantics of windows, for one key at a time.

An entity holds the open windows of one key. Time is event time, in nanoseconds since the Unix
epoch; a window [start, start + range) closes when the key's watermark reaches its end plus the
delay. A message advances the watermark to its own time, if that is later. While the key is silent,
a tick advances the watermark by the length of the silence, so windows close even if no more
messages arrive.

Sliding windows share work: messages are aggregated in panes, whose length is the greatest common
divisor of range and slide, and a window combines its panes when it closes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from wallaroo.api.windows import Aggregation, LatePolicy
from wallaroo.model.callers import time_limited
from wallaroo.saved_names import saved_as


class Late(Exception):
    """A message arrived after all its windows had closed, and is dropped."""


Failed = Callable[[str, BaseException], None]
"""Called with a description of a window whose output failed, and the exception of user code."""


class Windows(Protocol):
    """The windows of a step."""

    def new_entity(self) -> Any:
        """Return an entity for a key without messages."""

    def take(
        self, entity: Any, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        """Aggregate *message*; returns the outputs of the windows that it closes.

        Raises:
            Late: The message is dropped.
            Exception: User code raised on the message.
        """

    def tick(self, entity: Any, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Advance the clock; returns the outputs of the windows that close."""

    def due_ns(self, entity: Any) -> int | None:
        """Return the wall clock at which a tick closes a window if no message arrives, or None."""

    def is_disposable(self, entity: Any) -> bool:
        """Whether *entity* is equivalent to a new one and can be deleted."""

    def convert_accumulators(self, entity: Any, convert: Callable[[Any], Any]) -> Any:
        """Return a copy of *entity* with each accumulator replaced by the result of *convert*."""


@saved_as("RangeEntity")
@dataclass(slots=True)
class RangeEntity:
    """The open windows of one key."""

    watermark: int | None = None
    latest: int = 0
    """Latest event time."""
    seen_ns: int = 0
    """Wall clock at the arrival of the last message."""
    next_close: int | None = None
    """Watermark at which the next window with messages closes."""
    panes: dict[int, Any] = field(default_factory=dict)
    """Accumulators by the start of their pane."""


@time_limited
@dataclass(frozen=True)
class RangeWindows:
    """Windows over a period of time.

    Example:
        >>> class Messages(Aggregation):
        ...     def initial_accumulator(self):
        ...         return []
        ...
        ...     def update(self, message, accumulator):
        ...         accumulator.append(message)
        ...
        ...     def combine(self, one, other):
        ...         return one + other
        ...
        ...     def output(self, key, accumulator):
        ...         return "".join(accumulator)
        >>> windows = RangeWindows(10, 10, 0, "drop", None, Messages())
        >>> entity = windows.new_entity()
        >>> [windows.take(entity, "key", m, at, None) for m, at in [("a", 3), ("b", 9), ("c", 10)]]
        [[], [], ['ab']]
        >>> windows.due_ns(entity)
        20
        >>> windows.tick(entity, "key", 20, None)
        ['c']
    """

    range_ns: int
    slide_ns: int
    delay_ns: int
    late: LatePolicy
    event_time: Callable[[Any], int] | None
    aggregation: Aggregation[Any, Any, Any]

    def __str__(self) -> str:
        every = "" if self.slide_ns == self.range_ns else f" every {_duration(self.slide_ns)}"
        return f"windows of {_duration(self.range_ns)}{every}"

    def new_entity(self) -> RangeEntity:
        """Return an entity without windows."""
        return RangeEntity()

    def take(
        self, entity: RangeEntity, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        """Aggregate the message, and close the windows that its time closes."""
        if self.event_time is not None:
            event = _nanoseconds(self.event_time(message))
        else:  # clocks can run backwards, times of arrival must not
            event = max(arrived_ns, entity.watermark or arrived_ns)
        if entity.watermark is None:
            entity.watermark = entity.latest = event
        late = self._last_close(event) <= entity.watermark
        if late and self.late == "drop":
            raise Late
        if late and self.late == "fire-per-message":
            alone = self.aggregation.initial_accumulator()
            self.aggregation.update(message, alone)
            output = self.aggregation.output(key, alone)
            return [] if output is None else [output]
        # closing windows do not contain this message; if aggregating it raises, none closes
        self._gather(entity, message, self._oldest_start(entity.watermark) if late else event)
        entity.latest = max(entity.latest, event)
        entity.seen_ns = arrived_ns
        return self._advance(entity, key, max(entity.watermark, event), failed)

    def tick(self, entity: RangeEntity, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Close the windows that end if the key's time has advanced with the clock."""
        if entity.watermark is None:
            return []
        reached = entity.latest + max(0, now_ns - entity.seen_ns)
        return self._advance(entity, key, max(entity.watermark, reached), failed)

    def due_ns(self, entity: RangeEntity) -> int | None:
        """Return when the clock closes the next window."""
        if entity.next_close is None:
            return None
        return entity.seen_ns + entity.next_close - entity.latest

    def is_disposable(self, entity: RangeEntity) -> bool:
        """Whether no window is open and no message can be late."""
        return self.event_time is None and not entity.panes

    def convert_accumulators(
        self, entity: RangeEntity, convert: Callable[[Any], Any]
    ) -> RangeEntity:
        """Return a copy with converted accumulators."""
        panes = {start: convert(pane) for start, pane in entity.panes.items()}
        return dataclasses.replace(entity, panes=panes)

    @property
    def _pane_ns(self) -> int:
        return math.gcd(self.range_ns, self.slide_ns)

    def _gather(self, entity: RangeEntity, message: Any, event: int) -> None:
        start = event - event % self._pane_ns
        pane = entity.panes.get(start)
        if pane is None:
            pane = self.aggregation.initial_accumulator()
            self.aggregation.update(message, pane)
            entity.panes[start] = pane
            self._note_next_close(entity)
        else:
            self.aggregation.update(message, pane)

    def _advance(self, entity: RangeEntity, key: Any, watermark: int, failed: Failed) -> list[Any]:
        """Advance the watermark, and close the windows that it passes."""
        entity.watermark = watermark
        if entity.next_close is None or watermark < entity.next_close:
            return []
        first, outputs = entity.next_close - self.range_ns - self.delay_ns, []
        for start in self._starts(entity, first, watermark - self.range_ns - self.delay_ns):
            try:
                output = self.aggregation.output(key, self._accumulator(entity, start))
            except (Exception, SystemExit) as error:
                failed(f"window [{start}, {start + self.range_ns}) ns of key {key!r}", error)
                continue
            if output is not None:
                outputs.append(output)
        for pane in [start for start in entity.panes if self._last_close(start) <= watermark]:
            del entity.panes[pane]
        self._note_next_close(entity)
        return outputs

    def _starts(self, entity: RangeEntity, first: int, last: int) -> list[int]:
        """Return the starts in [*first*, *last*] of windows with panes, in order."""
        starts: set[int] = set()
        for pane in entity.panes:
            low = max(first, self._aligned(pane + self._pane_ns - self.range_ns))
            starts.update(range(low, min(last, pane) + 1, self.slide_ns))
        return sorted(starts)

    def _accumulator(self, entity: RangeEntity, start: int) -> Any:
        """Return the combined accumulator of the window that begins at *start*."""
        if self._pane_ns == self.range_ns:
            return entity.panes[start]
        combined = self.aggregation.initial_accumulator()
        for pane in self._panes_of(entity, start):
            combined = self.aggregation.combine(combined, pane)
        return combined

    def _panes_of(self, entity: RangeEntity, start: int) -> Iterator[Any]:
        for pane in range(start, start + self.range_ns, self._pane_ns):
            if pane in entity.panes:
                yield entity.panes[pane]

    def _note_next_close(self, entity: RangeEntity) -> None:
        """Update when the next window with messages closes."""
        assert entity.watermark is not None
        oldest = self._oldest_start(entity.watermark)
        starts = [
            max(oldest, self._aligned(pane + self._pane_ns - self.range_ns))
            for pane in entity.panes
        ]
        entity.next_close = min(starts) + self.range_ns + self.delay_ns if starts else None

    def _oldest_start(self, watermark: int) -> int:
        """Return the start of the oldest window that is open at *watermark*."""
        return self._aligned(watermark - self.range_ns - self.delay_ns + 1)

    def _last_close(self, event: int) -> int:
        """Return the watermark at which the last window that contains *event* closes."""
        return event - event % self.slide_ns + self.range_ns + self.delay_ns

    def _aligned(self, time: int) -> int:
        """Return the first start of a window at or after *time*."""
        return time + -time % self.slide_ns


@saved_as("CountEntity")
@dataclass(slots=True)
class CountEntity:
    """The open window of one key."""

    messages: int = 0
    accumulator: Any = None
    seen_ns: int = 0
    """Wall clock at the arrival of the last message."""


@time_limited
@dataclass(frozen=True)
class CountWindows:
    """Windows of a number of messages."""

    count: int
    timeout_ns: int | None
    aggregation: Aggregation[Any, Any, Any]

    def __str__(self) -> str:
        return f"windows of {self.count} messages"

    def new_entity(self) -> CountEntity:
        """Return an entity without messages."""
        return CountEntity()

    def take(
        self, entity: CountEntity, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        """Aggregate the message; the last one closes the window."""
        accumulator = entity.accumulator
        if not entity.messages:
            accumulator = self.aggregation.initial_accumulator()
        self.aggregation.update(message, accumulator)
        entity.accumulator, entity.seen_ns = accumulator, arrived_ns
        entity.messages += 1
        return self._close(entity, key, failed) if entity.messages == self.count else []

    def tick(self, entity: CountEntity, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Close the window if its key has been silent for too long."""
        due = self.due_ns(entity)
        return self._close(entity, key, failed) if due is not None and due <= now_ns else []

    def due_ns(self, entity: CountEntity) -> int | None:
        """Return when the timeout closes the window."""
        if self.timeout_ns is None or not entity.messages:
            return None
        return entity.seen_ns + self.timeout_ns

    def is_disposable(self, entity: CountEntity) -> bool:
        """Whether the window is empty."""
        return not entity.messages

    def convert_accumulators(
        self, entity: CountEntity, convert: Callable[[Any], Any]
    ) -> CountEntity:
        """Return a copy with a converted accumulator, if there is one."""
        if not entity.messages:
            return entity
        return dataclasses.replace(entity, accumulator=convert(entity.accumulator))

    def _close(self, entity: CountEntity, key: Any, failed: Failed) -> list[Any]:
        messages, accumulator = entity.messages, entity.accumulator
        entity.messages, entity.accumulator = 0, None
        try:
            output = self.aggregation.output(key, accumulator)
        except (Exception, SystemExit) as error:
            failed(f"window of {messages} messages of key {key!r}", error)
            return []
        return [] if output is None else [output]


def _nanoseconds(event: Any) -> int:
    if isinstance(event, bool) or not isinstance(event, int):
        msg = f"the event time is {event!r}; expected an int, nanoseconds since the Unix epoch"
        raise TypeError(msg)
    return event


def _duration(duration_ns: int) -> str:
    """Format *duration_ns* in the largest unit that leaves no fraction."""
    for unit, size in (("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000)):
        if duration_ns % size == 0:
            return f"{duration_ns // size} {unit}"
    return f"{duration_ns / 1_000_000:g} ms"
