"""Timers of a key: a state computation sets them, and is called back at their time."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from wallaroo.api.durations import not_negative_ns, since_epoch_ns
from wallaroo.errors import WallarooParameterError

DEFAULT_NAME = "timer"
"""Name of a timer that is set without one."""
SHORTEST_NS = 1_000_000
"""Shortest time from the call of a timer to that of one it sets, so that calls cannot continue for
ever."""

NsOrTimedelta = int | datetime.timedelta
"""A number of nanoseconds, as `wallaroo.seconds` and similar functions return, or a timedelta."""
Time = int | datetime.datetime
"""Nanoseconds since the Unix epoch, or a datetime with a time zone."""


class Timers:
    """The timers of one key, and its time; passed to state computations with `on_timer`.

    A key has at most one timer of each name. All times are in nanoseconds since the Unix epoch.
    Valid only during the call that received it. Create one to test a computation without the
    runtime.

    Args:
        key: The key.
        now: Its time, in nanoseconds since the Unix epoch.
        due: The timers that are set: their times, in nanoseconds since the Unix epoch, by name.

    Example:
        >>> import wallaroo
        >>> timers = Timers("a", now=wallaroo.seconds(10))
        >>> timers.set_after(wallaroo.minutes(1), "reminder")
        >>> timers.due("reminder") == wallaroo.seconds(70)
        True
        >>> timers.set_at(wallaroo.seconds(15), "reminder")  # moves it
        >>> timers.cancel("reminder")
        >>> timers.due("reminder") is None
        True
    """

    __slots__ = ("_due", "_earliest", "_is_over", "_key", "_now")

    def __init__(self, key: Any = None, now: int = 0, due: Mapping[str, int] | None = None) -> None:
        self._key = key
        self._now = now
        self._due = dict(due or {})
        self._earliest: int | None = None
        self._is_over = False

    @property
    def key(self) -> Any:
        """The key of the message or of the timer."""
        return self._key

    @property
    def now(self) -> int:
        """The time of the key, in nanoseconds since the Unix epoch.

        In a computation, it is the time of arrival of the message or, with `event_time`, the event
        time of the message; if that is not later than those of earlier messages and of the timers
        that were called, it is that time as the clock has advanced it since. In the function of a
        timer, it is the time for which the timer was set.
        """
        return self._now

    def set_after(self, duration: NsOrTimedelta, name: str = DEFAULT_NAME) -> None:
        """Set the timer *name* to *duration* from now; if it is set already, this moves it.

        Args:
            duration: Nanoseconds, or a timedelta.
            name: Name of the timer.

        Raises:
            TypeError: The duration or the name has another type.
            WallarooParameterError: The duration is negative, or a fraction without a unit; in the
                function of a timer, it is less than a millisecond.
        """
        self._set(self._now + not_negative_ns("duration", duration, bare=True), name)

    def set_at(self, time: Time, name: str = DEFAULT_NAME) -> None:
        """Set the timer *name* to *time*; if it is set already, this moves it.

        A timer that a computation sets to a time that has passed is called right after the
        computation.

        Args:
            time: Nanoseconds since the Unix epoch, or a datetime with a time zone.
            name: Name of the timer.

        Raises:
            TypeError: The time or the name has another type, or the datetime has no time zone.
            WallarooParameterError: In the function of a timer, the time is less than a millisecond
                after its own.
        """
        self._set(since_epoch_ns(time, "time"), name)

    def cancel(self, name: str = DEFAULT_NAME) -> None:
        """Cancel the timer *name*; does nothing if it is not set."""
        self._check_valid(name)
        self._due.pop(name, None)

    def due(self, name: str = DEFAULT_NAME) -> int | None:
        """The time of the timer *name*, in nanoseconds since the Unix epoch; None if not set."""
        self._check_valid(name)
        return self._due.get(name)

    def _set(self, at: int, name: str) -> None:
        self._check_valid(name)
        if self._earliest is not None and at < self._earliest:
            msg = (
                f"the timer {name!r} would be called again after {max(0, at - self._now)} ns; in "
                f"the function of a timer, set timers at least {SHORTEST_NS // 1_000_000} ms ahead"
            )
            raise WallarooParameterError(msg)
        self._due[name] = at

    def _check_valid(self, name: str) -> None:
        if not isinstance(name, str):
            msg = f"the name of the timer is {name!r}; expected a str"
            raise TypeError(msg)
        if self._is_over:
            msg = "the timers of a key can only be used during the call that received them"
            raise RuntimeError(msg)


class CallTimers(Timers):
    """The timers during one call, which the runtime makes."""

    __slots__ = ()

    def __init__(self, key: Any, now: int, due: dict[str, int], *, in_timer: bool) -> None:
        self._key = key
        self._now = now
        self._due = due  # not a copy: what the call sets counts
        self._earliest = now + SHORTEST_NS if in_timer else None
        self._is_over = False

    def end(self) -> None:
        """The call is over."""
        self._is_over = True
