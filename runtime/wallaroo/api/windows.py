"""Windows over streams, and aggregations over windows.

A window collects the messages of one key over a period of time, or a number of messages; an
aggregation computes the output of the window.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from wallaroo.api.keywords import keyword_aliases
from wallaroo.api.places import Place, calling_place
from wallaroo.errors import WallarooParameterError

In = TypeVar("In")
"""Type of the messages that are aggregated."""
In_contra = TypeVar("In_contra", contravariant=True)
"""The same, contravariant: an aggregation of a type accepts its subtypes, too."""
Accumulator = TypeVar("Accumulator")
"""Type of the accumulator."""
Out = TypeVar("Out")
"""Type of a window's output."""
Out_co = TypeVar("Out_co", covariant=True)
"""The same, covariant: an instance of a type is an instance of its supertypes, too."""

LatePolicy = Literal["drop", "fire-per-message", "place-in-oldest-window"]
"""How to handle a message whose windows have all closed."""


class Aggregation(ABC, Generic[In_contra, Accumulator, Out_co]):
    """Computes the output of a window from its messages.

    Subclass it and pass the class to `over`; one instance, created without arguments, serves all
    keys.

    Two rules are easily missed. `update` must modify the accumulator in place, because its return
    value is ignored; an accumulator therefore cannot be a plain number. And `combine` must not
    modify its arguments, because sliding windows share them.

    Example:
        >>> class Total:
        ...     def __init__(self, value=0):
        ...         self.value = value
        >>> class Sum(Aggregation):
        ...     def initial_accumulator(self):
        ...         return Total()
        ...
        ...     def update(self, message, accumulator):
        ...         accumulator.value += message
        ...
        ...     def combine(self, one, other):
        ...         return Total(one.value + other.value)
        ...
        ...     def output(self, key, accumulator):
        ...         return accumulator.value
        >>> summing, total = Sum(), Total()
        >>> for message in 1, 2, 3:
        ...     summing.update(message, total)
        >>> summing.output("any key", summing.combine(total, Total(4)))
        10
    """

    def name(self) -> str:
        """Return the name of the step in logs, metrics and errors; by default the class name."""
        return type(self).__name__

    @abstractmethod
    def initial_accumulator(self) -> Accumulator:
        """Return a new, empty accumulator: combining it with another changes nothing."""

    @abstractmethod
    def update(self, message: In_contra, accumulator: Accumulator) -> None:
        """Add *message* to *accumulator*, in place."""

    @abstractmethod
    def combine(self, one: Accumulator, other: Accumulator) -> Accumulator:
        """Return a new accumulator with the messages of *one*, followed by those of *other*."""

    @abstractmethod
    def output(self, key: Any, accumulator: Accumulator) -> Out_co | None:
        """Return the output of a window of *key* when it closes, or None to emit nothing."""


@dataclass(frozen=True)
class Windowing(Generic[In_contra, Out_co]):
    """Windows with their aggregation, for `Pipeline.to`; created by `over`."""

    windows: RangeWindows | CountWindows
    aggregation: Any
    """Subclass of `Aggregation`."""
    place: Place


@dataclass(frozen=True)
class RangeWindows:
    """Windows over a period of time; created by `range_windows`, completed by `over`."""

    range_ns: int
    slide_ns: int | None = None
    delay_ns: int | None = None
    late: LatePolicy | None = None
    event_time: Callable[[Any], int] | None = None

    def with_slide(self, slide: int) -> RangeWindows:
        """Start a window every *slide* nanoseconds, which must not exceed the range.

        Without it, each window starts where the previous one ends.
        """
        self._check_unset("with_slide", self.slide_ns)
        if not 0 < _checked_int("slide", slide) <= self.range_ns:
            msg = f"the slide is {slide} ns; it must be positive and at most {self.range_ns} ns"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, slide_ns=slide)

    def with_delay(self, delay: int) -> RangeWindows:
        """Keep windows open for *delay* nanoseconds after their end, to accept delayed messages."""
        self._check_unset("with_delay", self.delay_ns)
        if _checked_int("delay", delay) < 0:
            msg = f"the delay is {delay} ns; it must not be negative"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, delay_ns=delay)

    @keyword_aliases(late_data_policy="policy")
    def with_late_data_policy(self, policy: str) -> RangeWindows:
        """Set how to handle a message whose windows have all closed.

        Args:
            policy: `"drop"`, the default, drops and counts the message. `"fire-per-message"`
                immediately emits the aggregation's output for this message alone.
                `"place-in-oldest-window"` adds it to the oldest window that is still open.
        """
        self._check_unset("with_late_data_policy", self.late)
        canonical = policy.replace("_", "-")
        if canonical not in get_args(LatePolicy):
            msg = (
                f"{policy!r} is not a valid late data policy; "
                f"use one of {', '.join(get_args(LatePolicy))}"
            )
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, late=cast("LatePolicy", canonical))

    def with_event_time(self, event_time: Callable[[Any], int]) -> RangeWindows:
        """Take the time of a message from the message; without it, its time of arrival counts.

        Args:
            event_time: Function from a message to its time, an int: nanoseconds since the Unix
                epoch.
        """
        self._check_unset("with_event_time", self.event_time)
        return dataclasses.replace(self, event_time=event_time)

    @keyword_aliases(aggregation_cls="aggregation")
    def over(self, aggregation: type[Aggregation[In, Any, Out]]) -> Windowing[In, Out]:
        """Aggregate the messages of these windows with *aggregation*, a class."""
        return Windowing(self, aggregation, calling_place())

    def _check_unset(self, method: str, value: Any) -> None:
        if value is not None:
            msg = f"{method} has already been called on these windows; call it once"
            raise WallarooParameterError(msg)


@dataclass(frozen=True)
class CountWindows:
    """Windows of a number of messages; created by `count_windows`, completed by `over`."""

    count: int
    timeout_ns: int | None = None

    def with_timeout(self, timeout: int) -> CountWindows:
        """Close an incomplete window when its key has been silent for *timeout* nanoseconds.

        Without it, an incomplete window waits for messages indefinitely.
        """
        if _checked_int("timeout", timeout) <= 0:
            msg = f"the timeout is {timeout} ns; it must be positive"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, timeout_ns=timeout)

    @keyword_aliases(aggregation_cls="aggregation")
    def over(self, aggregation: type[Aggregation[In, Any, Out]]) -> Windowing[In, Out]:
        """Aggregate the messages of these windows with *aggregation*, a class."""
        return Windowing(self, aggregation, calling_place())


@keyword_aliases(wrange="range")
def range_windows(range: int) -> RangeWindows:  # noqa: A002  (the name that applications use)
    """Declare windows of *range* nanoseconds for each key, aligned to the Unix epoch.

    A window closes and emits its output once its end plus its delay has passed, according to the
    times of its key's messages or, while the key is silent, to the clock. A window without messages
    emits nothing.

    Args:
        range: Length of a window in nanoseconds; see `seconds` and similar functions.

    Example:
        >>> range_windows(minutes(1)).with_slide(seconds(10)).with_delay(seconds(5)).slide_ns
        10000000000
    """
    if _checked_int("range", range) <= 0:
        msg = f"the range is {range} ns; it must be positive"
        raise WallarooParameterError(msg)
    return RangeWindows(range)


@keyword_aliases(wrange="count")
def count_windows(count: int) -> CountWindows:
    """Declare windows of *count* messages for each key.

    Example:
        >>> count_windows(5).count
        5
    """
    if _checked_int("count", count) <= 0:
        msg = f"the count is {count}; it must be positive"
        raise WallarooParameterError(msg)
    return CountWindows(count)


def nanoseconds(number: int) -> int:
    """Convert *number* nanoseconds to nanoseconds.

    Example:
        >>> nanoseconds(5)
        5
    """
    return int(number)


def microseconds(number: float) -> int:
    """Convert *number* microseconds to nanoseconds.

    Example:
        >>> microseconds(5)
        5000
    """
    return int(number * 1_000)


def milliseconds(number: float) -> int:
    """Convert *number* milliseconds to nanoseconds.

    Example:
        >>> milliseconds(5)
        5000000
    """
    return int(number * 1_000_000)


def seconds(number: float) -> int:
    """Convert *number* seconds to nanoseconds.

    Example:
        >>> seconds(0.5)
        500000000
    """
    return int(number * 1_000_000_000)


def minutes(number: float) -> int:
    """Convert *number* minutes to nanoseconds.

    Example:
        >>> minutes(1) == seconds(60)
        True
    """
    return seconds(number * 60)


def hours(number: float) -> int:
    """Convert *number* hours to nanoseconds.

    Example:
        >>> hours(1) == minutes(60)
        True
    """
    return minutes(number * 60)


def _checked_int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"the {name} is {value!r}; expected an integer"
        raise TypeError(msg)
    return value
