"""The base of all windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wallaroo.api.aggregations import Aggregation, Window
from wallaroo.api.windows import EarlyResults
from wallaroo.user_code.callers import time_limited

_READINGS = ("seen_ns", "arrived_ns", "first_ns", "early_ns")
"""Fields of entities, and of their parts, that have readings of the clock."""


class Late(Exception):
    """A message arrived after all its windows had closed, and is not aggregated."""


Failed = Callable[[Any, BaseException], None]
"""Called with what failed, a description of a window or a pair of messages, and the exception of
user code."""


class Windows(Protocol):
    """The windows of a step."""

    @property
    def by_event(self) -> bool:
        """Whether event time is used."""

    def new_entity(self) -> Any:
        """Return an entity for a key without messages."""

    def take(
        self, entity: Any, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        """Aggregate *message*; returns the outputs of the windows that it closes, then early ones.

        What was due before it arrived must have been done (see `overdue`).

        Raises:
            Late: The message is not aggregated.
            Exception: User code raised on the message.
        """

    def tick(self, entity: Any, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Do what is due by the clock; returns the outputs."""

    def due_ns(self, entity: Any) -> int | None:
        """Return the wall clock at which a tick emits something if no message arrives, or None."""

    def idle_ns(self, entity: Any) -> int | None:
        """Return the wall clock at which a tick frees what no message depends on, or None.

        No tick is asked for: it comes with the next messages. It has no outputs, so there is no
        such time while `due_ns` says that one has.
        """

    def is_disposable(self, entity: Any) -> bool:
        """Whether *entity* is equivalent to a new one and can be deleted."""

    def open_windows(self, entity: Any) -> int:
        """Return the number of open windows with messages."""

    def watermark(self, entity: Any) -> int | None:
        """Return the watermark of the key; None if there is none."""

    def shift(self, entity: Any, by_ns: int) -> None:
        """Add *by_ns* to all readings of the clock in *entity*, as for another clock."""

    def convert_accumulators(self, entity: Any, convert: Callable[[Any], Any]) -> Any:
        """Return a copy of *entity* with each accumulator replaced by the result of *convert*."""


def overdue(windows: Windows, entity: Any, key: Any, now_ns: int, failed: Failed) -> list[Any]:
    """Do what was due before a message that arrives at *now_ns*; returns the outputs.

    A tick of the clock may be on its way at that time.
    """
    due = windows.due_ns(entity)
    return [] if due is None or due > now_ns else windows.tick(entity, key, now_ns, failed)


def early_of(entity: Any) -> int | None:
    """Return the wall clock at which early results of *entity* are due; None if they are not."""
    return getattr(entity, "early_ns", None)


def shift_readings(*parts: Any, by_ns: int) -> None:
    """Add *by_ns* to the readings of the clock that *parts* of an entity have themselves."""
    for part in parts:
        for name in _READINGS:
            if (at := getattr(part, name, None)) is not None:
                setattr(part, name, at + by_ns)


@time_limited
@dataclass(frozen=True, kw_only=True)
class Aggregating:
    """Computes outputs of windows by an aggregation."""

    aggregation: Aggregation[Any, Any, Any]
    takes_window: bool = False
    """Whether the aggregation's `output` has a parameter for the window."""
    early: EarlyResults | None = None

    @abstractmethod
    def close_due_ns(self, entity: Any) -> int | None:
        """Return the wall clock at which the next window closes if no message arrives, or None."""

    def due_ns(self, entity: Any) -> int | None:
        """Return when the clock closes the next window, or early results are due."""
        due = self.close_due_ns(entity)
        if self.early is None or self.early.every_ns is None:
            return due
        if (early := early_of(entity)) is None:
            return due
        return early if due is None else min(due, early)

    def idle_ns(self, entity: Any) -> int | None:  # noqa: ARG002
        """Return None: there is nothing to free."""
        return None

    def shift(self, entity: Any, by_ns: int) -> None:
        """Add *by_ns* to all readings of the clock in *entity*."""
        shift_readings(entity, by_ns=by_ns)

    def output(self, key: Any, accumulator: Any, window: Window) -> list[Any]:
        """Return the output of *window*, if there is one.

        Raises:
            Exception: User code raised.
        """
        if self.takes_window:
            output = self.aggregation.output(key, accumulator, window)
        else:
            output = self.aggregation.output(key, accumulator)
        return [] if output is None else [output]


def duration(duration_ns: int) -> str:
    """Format *duration_ns* in the largest unit that leaves no fraction.

    Example:
        >>> duration(90_000_000_000), duration(3_600_000_000_000), duration(5_000_000)
        ('90 s', '1 h', '5 ms')
    """
    for unit, size in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6)):
        if duration_ns % size == 0:
            return f"{duration_ns // size:,} {unit}"
    return f"{duration_ns:,} ns"
