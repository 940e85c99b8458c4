"""Windows over time: times, watermarks, late messages and early results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.api.aggregations import Window
from wallaroo.api.durations import EventTime, since_epoch_ns
from wallaroo.api.windows import EarlyResults, LatePolicy
from wallaroo.model.windows.base import Aggregating, Failed, Late, early_of
from wallaroo.user_code.callers import time_limited


@time_limited
@dataclass(frozen=True, kw_only=True)
class TimeWindows(Aggregating):
    """Windows over time."""

    delay_ns: int = 0
    late: LatePolicy = "drop"
    event_time: EventTime | None = None

    @property
    def by_event(self) -> bool:
        """Whether event time is used."""
        return self.event_time is not None

    @property
    @abstractmethod
    def kind(self) -> str:
        """The word for one of these windows in messages."""

    @abstractmethod
    def next_close(self, entity: Any) -> int | None:
        """Return the watermark at which the next window with messages closes; None for never."""

    @abstractmethod
    def is_late(self, entity: Any, event: int, watermark: int) -> bool:
        """Whether all windows of a message of time *event* have closed by *watermark*."""

    @abstractmethod
    def alone(self, event: int) -> Window:
        """Return the window of a late message of time *event* that is aggregated alone."""

    @abstractmethod
    def gather(
        self, entity: Any, message: Any, event: int, watermark: int, *, late: bool
    ) -> Sequence[int]:
        """Aggregate *message*, if it is *late* in the oldest window that is open at *watermark*.

        Returns the starts of the open windows that contain it; nothing without early results.

        Raises:
            Exception: User code raised; nothing has changed, except for an accumulator that was
                changed before it raised.
        """

    @abstractmethod
    def closing(self, entity: Any, watermark: int) -> Sequence[int]:
        """Return the starts of the windows with messages that close at *watermark*, in order."""

    @abstractmethod
    def remove_closed(self, entity: Any, watermark: int) -> None:
        """Free the contents of the windows that close at *watermark*."""

    @abstractmethod
    def end(self, entity: Any, start: int) -> int:
        """Return the end of the open window that begins at *start*."""

    @abstractmethod
    def accumulator(self, entity: Any, start: int) -> Any:
        """Return the accumulator of the open window that begins at *start*.

        Raises:
            Exception: User code raised.
        """

    def take(
        self, entity: Any, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        """Aggregate the message, and close the windows that its time closes."""
        if self.event_time is not None:
            event = since_epoch_ns(self.event_time(message))
        else:  # clocks can run backwards, times of arrival must not
            event = max(arrived_ns, entity.watermark or arrived_ns)
        first = entity.watermark is None
        watermark = event if first else entity.watermark
        late = self.is_late(entity, event, watermark)
        if late and self.late == "fire-per-message":
            alone = self.aggregation.initial_accumulator()
            self.aggregation.update(message, alone)
            return self.output(key, alone, self.alone(event))
        if late and self.late == "drop":
            raise Late
        # closing windows do not contain this message; if aggregating it raises, none closes
        starts = self.gather(entity, message, event, watermark, late=late)
        entity.latest = event if first else max(entity.latest, event)
        entity.seen_ns = arrived_ns
        outputs = self._advance(entity, key, max(watermark, event), failed)
        if self.early is not None:
            outputs += self._note_fresh(entity, key, self.early, starts, arrived_ns, failed)
        return outputs

    def tick(self, entity: Any, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Emit what is due, in order, and advance the key's time as far as that requires."""
        outputs: list[Any] = []
        while (due := self.due_ns(entity)) is not None and due <= now_ns:
            if due == self.close_due_ns(entity):
                watermark = max(entity.watermark, self.next_close(entity))
                outputs += self._advance(entity, key, watermark, failed)
            else:
                outputs += self._emit_early(entity, key, sorted(fresh_of(entity) or ()), failed)
                entity.early_ns = None
        return outputs

    def watermark(self, entity: Any) -> int | None:
        """Return the watermark of the key."""
        return entity.watermark  # type: ignore[no-any-return]

    def close_due_ns(self, entity: Any) -> int | None:
        """Return when the clock closes the next window."""
        closes = self.next_close(entity)
        return None if closes is None else entity.seen_ns + closes - entity.latest

    def _advance(self, entity: Any, key: Any, watermark: int, failed: Failed) -> list[Any]:
        """Advance the watermark, and close the windows that it passes."""
        entity.watermark = watermark
        closes = self.next_close(entity)
        if closes is None or watermark < closes:
            return []
        outputs: list[Any] = []
        fresh = fresh_of(entity)
        for start in self.closing(entity, watermark):
            outputs += self._result(entity, key, start, failed, is_final=True)
            if fresh:
                fresh.pop(start, None)
        self.remove_closed(entity, watermark)
        if not fresh and early_of(entity) is not None:
            entity.early_ns = None
        return outputs

    def _note_fresh(
        self,
        entity: Any,
        key: Any,
        early: EarlyResults,
        starts: Sequence[int],
        arrived_ns: int,
        failed: Failed,
    ) -> list[Any]:
        """Note that the open windows at *starts* have a message more; returns early results."""
        if (fresh := fresh_of(entity)) is None:
            fresh = entity.fresh = {}
        for start in starts:
            fresh[start] = fresh.get(start, 0) + 1
        if early.messages is None:
            assert early.every_ns is not None
            if early_of(entity) is None:
                entity.early_ns = arrived_ns + early.every_ns
            return []
        ready = [start for start in starts if fresh[start] >= early.messages]
        return self._emit_early(entity, key, ready, failed)

    def _emit_early(
        self, entity: Any, key: Any, starts: Sequence[int], failed: Failed
    ) -> list[Any]:
        outputs: list[Any] = []
        for start in starts:
            outputs += self._result(entity, key, start, failed, is_final=False)
            del entity.fresh[start]
        return outputs

    def _result(
        self, entity: Any, key: Any, start: int, failed: Failed, *, is_final: bool
    ) -> list[Any]:
        window = Window(start, self.end(entity, start), is_final)
        try:
            return self.output(key, self.accumulator(entity, start), window)
        except (Exception, SystemExit) as error:
            early = "" if is_final else "early result of "
            name = f"{early}{self.kind} [{start}, {window.end_ns}) ns of key {key!r}"
            failed(name, error)
            return []


def fresh_of(entity: Any) -> dict[int, int] | None:
    """Return messages of *entity* that no result contains, by start of their window; or None."""
    return getattr(entity, "fresh", None)
