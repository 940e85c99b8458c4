"""Windows over streams, and aggregations over windows.

A window gathers the messages of one key over a stretch of time, or a number of messages; an
aggregation says what becomes of them.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from wallaroo.api.keywords import also_called
from wallaroo.api.places import Place, calling_place
from wallaroo.errors import WallarooParameterError

In = TypeVar("In")
"""Type of the messages that are aggregated."""
In_contra = TypeVar("In_contra", contravariant=True)
"""The same: what gathers messages of a type gathers those of its subtypes, too."""
Accumulator = TypeVar("Accumulator")
"""Type of what they are gathered in."""
Out = TypeVar("Out")
"""Type of a window's output."""
Out_co = TypeVar("Out_co", covariant=True)
"""The same: an output is one of each of its supertypes, too."""

LatePolicy = Literal["drop", "fire-per-message", "place-in-oldest-window"]
"""What becomes of a message whose windows have all closed."""


class Aggregation(ABC, Generic[In_contra, Accumulator, Out_co]):
    """What becomes of the messages in a window.

    Subclass it and give the class to `over`; one instance, made without arguments, serves all keys.

    The trap: `update` has to change the accumulator in place, what it returns is ignored; so an
    accumulator cannot be a plain number. And `combine` must leave both of its arguments as they
    are, because sliding windows share them.

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
        """Name of the step in logs, metrics and errors; the name of the class."""
        return type(self).__name__

    @abstractmethod
    def initial_accumulator(self) -> Accumulator:
        """A new accumulator that has gathered nothing: combined with another it changes nothing."""

    @abstractmethod
    def update(self, message: In_contra, accumulator: Accumulator) -> None:
        """Gather *message* in *accumulator*, in place."""

    @abstractmethod
    def combine(self, one: Accumulator, other: Accumulator) -> Accumulator:
        """A new accumulator of what *one* and then *other* have gathered."""

    @abstractmethod
    def output(self, key: Any, accumulator: Accumulator) -> Out_co | None:
        """What a window of *key* gives when it closes; None gives nothing."""


@dataclass(frozen=True)
class Windowing(Generic[In_contra, Out_co]):
    """Windows and their aggregation, as `Pipeline.to` takes them; made by `over`."""

    windows: RangeWindows | CountWindows
    aggregation: Any
    """Subclass of `Aggregation`."""
    place: Place


@dataclass(frozen=True)
class RangeWindows:
    """Windows of a length of time; made by `range_windows`, completed by `over`."""

    range_ns: int
    slide_ns: int | None = None
    delay_ns: int | None = None
    late: LatePolicy | None = None
    event_time: Callable[[Any], int] | None = None

    def with_slide(self, slide: int) -> RangeWindows:
        """Start a window every *slide* nanoseconds; it must not be longer than the range.

        Without it, one window starts where the last one ends.
        """
        self._once("with_slide", self.slide_ns)
        if not 0 < _whole("slide", slide) <= self.range_ns:
            msg = f"a slide of {slide} ns: it has to be above zero, and at most {self.range_ns}"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, slide_ns=slide)

    def with_delay(self, delay: int) -> RangeWindows:
        """Keep windows open for *delay* nanoseconds after their end, for messages that are late."""
        self._once("with_delay", self.delay_ns)
        if _whole("delay", delay) < 0:
            msg = f"a delay of {delay} ns: it cannot be below zero"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, delay_ns=delay)

    @also_called(late_data_policy="policy")
    def with_late_data_policy(self, policy: str) -> RangeWindows:
        """Say what becomes of a message whose windows have all closed.

        Args:
            policy: `"drop"` counts and forgets it, and is the default. `"fire-per-message"` gives
                at once what the aggregation makes of this message alone.
                `"place-in-oldest-window"` puts it into the oldest window that has not closed.
        """
        self._once("with_late_data_policy", self.late)
        named = policy.replace("_", "-")
        if named not in get_args(LatePolicy):
            msg = f"there is no late data policy {policy!r}: {', '.join(get_args(LatePolicy))}"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, late=cast("LatePolicy", named))

    def with_event_time(self, event_time: Callable[[Any], int]) -> RangeWindows:
        """Take a message's time out of the message; without it, it is the time of its arrival.

        Args:
            event_time: From message to nanoseconds since the epoch, a whole number.
        """
        self._once("with_event_time", self.event_time)
        return dataclasses.replace(self, event_time=event_time)

    @also_called(aggregation_cls="aggregation")
    def over(self, aggregation: type[Aggregation[In, Any, Out]]) -> Windowing[In, Out]:
        """Gather the messages of these windows with *aggregation*, a class."""
        return Windowing(self, aggregation, calling_place())

    def _once(self, method: str, value: Any) -> None:
        if value is not None:
            msg = f"{method} has been called on these windows already"
            raise WallarooParameterError(msg)


@dataclass(frozen=True)
class CountWindows:
    """Windows of a number of messages; made by `count_windows`, completed by `over`."""

    count: int
    timeout_ns: int | None = None

    def with_timeout(self, timeout: int) -> CountWindows:
        """Close a window that is not full when its key has been silent for *timeout* nanoseconds.

        Without it, such a window waits for messages however long it takes.
        """
        if _whole("timeout", timeout) <= 0:
            msg = f"a timeout of {timeout} ns: it has to be above zero"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, timeout_ns=timeout)

    @also_called(aggregation_cls="aggregation")
    def over(self, aggregation: type[Aggregation[In, Any, Out]]) -> Windowing[In, Out]:
        """Gather the messages of these windows with *aggregation*, a class."""
        return Windowing(self, aggregation, calling_place())


@also_called(wrange="range")
def range_windows(range: int) -> RangeWindows:  # noqa: A002  (the name that applications use)
    """Windows of *range* nanoseconds for each key, aligned to the epoch.

    A window closes, and gives its output, when a message of its key shows that its time and its
    delay are over, or the clock does while the key is silent. A window without messages gives
    nothing.

    Args:
        range: Length of a window in nanoseconds; see `seconds` and its like.

    Example:
        >>> range_windows(minutes(1)).with_slide(seconds(10)).with_delay(seconds(5)).slide_ns
        10000000000
    """
    if _whole("range", range) <= 0:
        msg = f"windows of {range} ns: the range has to be above zero"
        raise WallarooParameterError(msg)
    return RangeWindows(range)


@also_called(wrange="count")
def count_windows(count: int) -> CountWindows:
    """Windows of *count* messages for each key.

    Example:
        >>> count_windows(5).count
        5
    """
    if _whole("count", count) <= 0:
        msg = f"windows of {count} messages: the count has to be above zero"
        raise WallarooParameterError(msg)
    return CountWindows(count)


def nanoseconds(number: int) -> int:
    """*number* nanoseconds, in nanoseconds.

    Example:
        >>> nanoseconds(5)
        5
    """
    return int(number)


def microseconds(number: float) -> int:
    """*number* microseconds, in nanoseconds.

    Example:
        >>> microseconds(5)
        5000
    """
    return int(number * 1_000)


def milliseconds(number: float) -> int:
    """*number* milliseconds, in nanoseconds.

    Example:
        >>> milliseconds(5)
        5000000
    """
    return int(number * 1_000_000)


def seconds(number: float) -> int:
    """*number* seconds, in nanoseconds.

    Example:
        >>> seconds(0.5)
        500000000
    """
    return int(number * 1_000_000_000)


def minutes(number: float) -> int:
    """*number* minutes, in nanoseconds.

    Example:
        >>> minutes(1) == seconds(60)
        True
    """
    return seconds(number * 60)


def hours(number: float) -> int:
    """*number* hours, in nanoseconds.

    Example:
        >>> hours(1) == minutes(60)
        True
    """
    return minutes(number * 60)


def _whole(what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{what} is {value!r}, and a whole number is due"
        raise TypeError(msg)
    return value
