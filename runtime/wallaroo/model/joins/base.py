"""The base of all joins: their function, their sides, and the retention of keys."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from wallaroo.model.windows import Failed
from wallaroo.model.windows.base import shift_readings
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited

_REMEMBERED_NS = 3600 * 10**9
"""Clock for which a key is remembered, at least, after its last message was freed, so that messages
that are late for it stay late."""
_PARTS = 16
"""What makes no difference to messages is done later by at most this part of its time."""


def arrival(_message: Any) -> None:
    """Stands for the function that returns the time of a message if that of its arrival counts."""


@dataclass(frozen=True)
class Join(ABC):
    """A join, as the step of one of its inputs."""

    function: Callable[[Any, Any], Any]
    """From a left and a right message to the output, or None."""
    keeps_left: bool
    """Whether the function is called with None for a left message without a match."""
    left_time: Callable[[Any], Any]
    """From a left message to its time; `arrival` for its time of arrival."""
    right_time: Callable[[Any], Any]
    """From a right message to its time; `arrival` for its time of arrival."""
    is_left: bool
    """Whether the messages of this step are left ones."""

    def right(self) -> Self:
        """The step of the right input."""
        return dataclasses.replace(self, is_left=False)

    def guarded(self, guard: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Self:
        """Return a copy with functions that *guard* has wrapped."""
        return dataclasses.replace(
            self,
            function=guard(self.function),
            left_time=guard(self.left_time),
            right_time=guard(self.right_time),
        )

    @property
    @abstractmethod
    def why_never_late(self) -> str | None:
        """Why no message is ever late; None if messages can be."""


@time_limited
class Joining(Join):
    """Calls the functions of a join."""

    def time_of(self, message: Any) -> Any:
        """Return what the function for the time of a *message* of this side returns.

        It is called first for each message, even if it is `arrival`: whoever skips a message, skips
        this call.

        Raises:
            Exception: User code raised.
        """
        return (self.left_time if self.is_left else self.right_time)(message)

    def joined(self, left: Any, right: Any, failed: Failed) -> list[Any]:
        """Return the output for a pair, if there is one; what the function raises has *failed*."""
        try:
            output = self.function(left, right)
        except (Exception, SystemExit) as error:
            failed((left, right), error)
            return []
        return [] if output is None else [output]

    def shift(self, entity: Any, by_ns: int) -> None:
        """Add *by_ns* to all readings of the clock in *entity*."""
        shift_readings(entity, by_ns=by_ns)

    def unmatched(self, left: Any, failed: Failed) -> list[Any]:
        """Return the output for a left message without a match, if there is one."""
        return self.joined(left, None, failed) if self.keeps_left else []


@time_limited
class TimedJoining(Joining):
    """A join that remembers a key for some time after its last message was freed."""

    @property
    @abstractmethod
    def span_ns(self) -> int:
        """Time for which messages are kept."""

    @abstractmethod
    def new_entity(self) -> Any:
        """Return an entity without messages."""

    @abstractmethod
    def clocks(self, entity: Any) -> tuple[Clock, Clock]:
        """The clocks of both sides."""

    @abstractmethod
    def open_windows(self, entity: Any) -> int:
        """The number of messages that are kept."""

    @abstractmethod
    def settle(self, entity: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Do what the clock completes; returns the outputs."""

    def tick(
        self,
        entity: Any,
        key: Any,  # noqa: ARG002
        now_ns: int,
        failed: Failed,
    ) -> list[Any]:
        """Settle what the clock completes, and forget the key when it is time."""
        outputs = self.settle(entity, now_ns, failed)
        self.forget_if_due(entity, now_ns)
        return outputs

    def is_disposable(self, entity: Any) -> bool:
        """Whether no message is kept, and none can be late."""
        return not self.open_windows(entity) and self.forgotten_ns(entity) is None

    def watermark(self, entity: Any) -> int | None:
        """Return the time up to which both sides have come."""
        times = (clock.latest for clock in self.clocks(entity))
        return min((time for time in times if time is not None), default=None)

    def forgotten_ns(self, entity: Any) -> int | None:
        """Return when the clock forgets a key without messages; None if there is nothing to."""
        clocks = self.clocks(entity)
        if self.open_windows(entity) or all(clock.latest is None for clock in clocks):
            return None
        return max(clock.seen_ns for clock in clocks) + self._remembered_ns

    def forget_if_due(self, entity: Any, now_ns: int) -> None:
        """Make *entity* a new one if the clock forgets the key by *now_ns*."""
        forgotten = self.forgotten_ns(entity)
        if forgotten is not None and forgotten <= now_ns:
            new = self.new_entity()
            for field in dataclasses.fields(new):
                setattr(entity, field.name, getattr(new, field.name))

    def idle_of(self, entity: Any, due_ns: int | None) -> int | None:
        """Return `idle_ns`, if *due_ns* is when the next message is freed; None for no message."""
        if due_ns is not None:
            return coarse(due_ns, self.span_ns)
        forgotten = self.forgotten_ns(entity)
        return None if forgotten is None else coarse(forgotten, self._remembered_ns)

    @property
    def _remembered_ns(self) -> int:
        """For how long a key is remembered."""
        return max(_REMEMBERED_NS, 2 * self.span_ns)


@saved_as("JoinClock")
@dataclass(slots=True)
class Clock:
    """How far one side of a key has come, in event time and by the clock."""

    latest: int | None = None
    """Latest time of a message; None without one."""
    seen_ns: int = 0
    """Clock at the arrival of the last message."""

    def note(self, time: int, arrived_ns: int) -> None:
        """Note a message of *time*."""
        self.latest = time if self.latest is None else max(self.latest, time)
        self.seen_ns = max(self.seen_ns, arrived_ns)


def coarse(due_ns: int, span_ns: int) -> int:
    """Return when to do at last what is due after *span_ns*, together with that of other keys.

    Example:
        >>> coarse(1_000_000_007, 160_000_000)
        1010000000
    """
    step = max(1, span_ns // _PARTS)
    return due_ns + -due_ns % step
