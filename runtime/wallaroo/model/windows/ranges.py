"""Windows over a period of time.

A window [start, start + range) closes when the key's watermark reaches its end plus the delay.

Sliding windows share work: messages are aggregated in panes, whose length is the greatest common
divisor of range and slide, and a window combines its panes when it closes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wallaroo.api.aggregations import Window
from wallaroo.model.windows.base import duration
from wallaroo.model.windows.times import TimeWindows
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited


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
    # saved only if they are set, as entities were saved before there were early results
    fresh: dict[int, int] = field(init=False, repr=False, compare=False)
    """Messages that no result contains, by start of their window; unset without early results."""
    early_ns: int | None = field(init=False, repr=False, compare=False)
    """Wall clock at which early results are due; may be unset."""


@time_limited
@dataclass(frozen=True)
class RangeWindows(TimeWindows):
    """Windows over a period of time.

    Example:
        >>> from wallaroo.api.aggregations import Aggregation
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
        >>> windows = RangeWindows(10, 10, aggregation=Messages())
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

    def __str__(self) -> str:
        every = "" if self.slide_ns == self.range_ns else f" every {duration(self.slide_ns)}"
        return f"windows of {duration(self.range_ns)}{every}"

    @property
    def kind(self) -> str:
        return "window"

    def new_entity(self) -> RangeEntity:
        return RangeEntity()

    def is_disposable(self, entity: RangeEntity) -> bool:
        """Whether no window is open and no message can be late."""
        return self.event_time is None and not entity.panes

    def open_windows(self, entity: RangeEntity) -> int:
        if self.slide_ns == self.range_ns or entity.watermark is None:
            return len(entity.panes)
        oldest, counted = self._oldest_start(entity.watermark), 0
        for pane in sorted(entity.panes):  # without listing them, as this is asked often
            oldest = max(oldest, self._aligned(pane + self._pane_ns - self.range_ns))
            count = (pane - oldest) // self.slide_ns + 1
            if count > 0:
                counted += count
                oldest += count * self.slide_ns
        return counted

    def convert_accumulators(
        self, entity: RangeEntity, convert: Callable[[Any], Any]
    ) -> RangeEntity:
        converted = copy.copy(entity)
        converted.panes = {start: convert(pane) for start, pane in entity.panes.items()}
        return converted

    def next_close(self, entity: RangeEntity) -> int | None:
        return entity.next_close

    def is_late(self, entity: RangeEntity, event: int, watermark: int) -> bool:  # noqa: ARG002
        """Whether all windows that contain *event* have closed."""
        return self._last_close(event) <= watermark

    def alone(self, event: int) -> Window:
        """Return the last window that contains *event*."""
        start = event - event % self.slide_ns
        return Window(start, start + self.range_ns)

    def gather(
        self, entity: RangeEntity, message: Any, event: int, watermark: int, *, late: bool
    ) -> Sequence[int]:
        """Aggregate the message in its pane."""
        oldest = self._oldest_start(watermark)
        start = oldest if late else event - event % self._pane_ns
        pane = entity.panes.get(start)
        if pane is None:
            pane = self.aggregation.initial_accumulator()
            self.aggregation.update(message, pane)
            entity.panes[start] = pane
            self._note_next_close(entity, oldest)
        else:
            self.aggregation.update(message, pane)
        if self.early is None:
            return ()
        first = max(oldest, self._aligned(start + self._pane_ns - self.range_ns))
        return range(first, start + 1, self.slide_ns)

    def closing(self, entity: RangeEntity, watermark: int) -> Sequence[int]:
        assert entity.next_close is not None
        first = entity.next_close - self.range_ns - self.delay_ns
        return self._starts(entity, first, watermark - self.range_ns - self.delay_ns)

    def remove_closed(self, entity: RangeEntity, watermark: int) -> None:
        """Free the panes that only closed windows contain."""
        for pane in [start for start in entity.panes if self._last_close(start) <= watermark]:
            del entity.panes[pane]
        self._note_next_close(entity, self._oldest_start(watermark))

    def end(self, entity: RangeEntity, start: int) -> int:  # noqa: ARG002
        return start + self.range_ns

    def accumulator(self, entity: RangeEntity, start: int) -> Any:
        """Return the combined accumulator of the window that begins at *start*."""
        if self._pane_ns == self.range_ns:
            return entity.panes[start]
        combined = self.aggregation.initial_accumulator()
        for pane in self._panes_of(entity, start):
            combined = self.aggregation.combine(combined, pane)
        return combined

    @property
    def _pane_ns(self) -> int:
        return math.gcd(self.range_ns, self.slide_ns)

    def _starts(self, entity: RangeEntity, first: int, last: int) -> list[int]:
        """Return the starts in [*first*, *last*] of windows with panes, in order."""
        starts: set[int] = set()
        for pane in entity.panes:
            low = max(first, self._aligned(pane + self._pane_ns - self.range_ns))
            starts.update(range(low, min(last, pane) + 1, self.slide_ns))
        return sorted(starts)

    def _panes_of(self, entity: RangeEntity, start: int) -> Iterator[Any]:
        for pane in range(start, start + self.range_ns, self._pane_ns):
            if pane in entity.panes:
                yield entity.panes[pane]

    def _note_next_close(self, entity: RangeEntity, oldest: int) -> None:
        """Update when the next window with messages closes; the first open one is at *oldest*."""
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
