"""Windows over streams.

A window collects the messages of one key over a period of time, until a pause, or up to a number of
messages; an aggregation computes the output of the window.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar, cast, get_args

from wallaroo.api.aggregations import Aggregation, AggregationClass, In_contra, Out_co
from wallaroo.api.durations import AnyDuration, EventTime, duration_ns, not_negative_ns, positive_ns
from wallaroo.api.integers import positive_integer
from wallaroo.api.keywords import keyword_aliases
from wallaroo.api.places import Place, calling_place
from wallaroo.errors import WallarooParameterError

In = TypeVar("In")
"""Type of the messages that are aggregated."""
Out = TypeVar("Out")
"""Type of a window's output."""

AnyAggregation = (
    type[Aggregation[In, Any, Out]]
    | Aggregation[In, Any, Out]
    | AggregationClass[In, Any, Out | None]
    | Callable[[], AggregationClass[In, Any, Out | None]]
)
"""An aggregation, or its class if it is created without arguments."""
LatePolicy = Literal["drop", "fire-per-message", "place-in-oldest-window"]
"""How to handle a message whose windows have all closed."""


@dataclass(frozen=True)
class EarlyResults:
    """When windows emit what they have so far; one of the fields is set."""

    messages: int | None = None
    """Number of messages of a window after which it emits."""
    every_ns: int | None = None
    """Nanoseconds after the first message that no result contains."""


@dataclass(frozen=True)
class Windowing(Generic[In_contra, Out_co]):
    """Windows with their aggregation, for `Pipeline.to`; created by `over`."""

    windows: AnyWindows
    aggregation: Any
    """An `Aggregation`, or a subclass of it."""
    place: Place


@dataclass(frozen=True, kw_only=True)
class _Windows:
    """What all windows have in common."""

    early: EarlyResults | None = None

    def with_early_results(
        self, *, messages: int | None = None, every: AnyDuration | None = None
    ) -> Self:
        """Emit what a window has so far, before it closes; without this, it emits only once.

        The result of the whole window follows in any case when it closes; an `output` with a third
        parameter can tell which one it computes (`Window.is_final`).

        Args:
            messages: Emit after each *messages* messages of a window: 1 for every message.
            every: Emit once this duration has passed, by the clock, since the arrival of the first
                message of the key that no result contains. An open window without new messages
                emits nothing.

        Raises:
            WallarooParameterError: Not exactly one argument is given, or it is not positive.
        """
        _check_unset("with_early_results", self.early)
        if (messages is None) == (every is None):
            msg = (
                "with_early_results takes either messages or every: write "
                "with_early_results(messages=1) for a result with each message"
            )
            raise WallarooParameterError(msg)
        if messages is not None:
            early = EarlyResults(messages=positive_integer("the number of messages", messages))
        else:
            early = EarlyResults(every_ns=positive_ns("duration between early results", every))
        return dataclasses.replace(self, early=early)

    @keyword_aliases(aggregation_cls="aggregation")
    def over(self, aggregation: AnyAggregation[In, Out]) -> Windowing[In, Out]:
        """Aggregate the messages of these windows.

        Args:
            aggregation: An `Aggregation`, or its class if it is created without arguments.
        """
        return Windowing(cast("AnyWindows", self), aggregation, calling_place())


@dataclass(frozen=True, kw_only=True)
class _TimeWindows(_Windows):
    """What windows over time have in common."""

    delay_ns: int | None = None
    late: LatePolicy | None = None
    event_time: EventTime | None = None

    def with_delay(self, delay: AnyDuration) -> Self:
        """Keep windows open for *delay* after their end, to accept delayed messages."""
        _check_unset("with_delay", self.delay_ns)
        return dataclasses.replace(self, delay_ns=not_negative_ns("delay", delay))

    @keyword_aliases(late_data_policy="policy")
    def with_late_data_policy(self, policy: str) -> Self:
        """Set how to handle a message whose windows have all closed.

        Args:
            policy: `"drop"`, the default, does not aggregate the message: it is counted as late,
                and goes to the steps after `WindowedPipeline.late`, if there are any.
                `"fire-per-message"` immediately emits the aggregation's output for this message
                alone. `"place-in-oldest-window"` adds it to the oldest window that is still open.
        """
        _check_unset("with_late_data_policy", self.late)
        canonical = policy.replace("_", "-")
        if canonical not in get_args(LatePolicy):
            msg = (
                f"{policy!r} is not a valid late data policy; "
                f"use one of {', '.join(get_args(LatePolicy))}"
            )
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, late=cast("LatePolicy", canonical))

    def with_event_time(self, event_time: EventTime) -> Self:
        """Take the time of a message from the message; without it, its time of arrival counts.

        Args:
            event_time: Function from a message to its time: an int, nanoseconds since the Unix
                epoch, or a datetime with a time zone.
        """
        _check_unset("with_event_time", self.event_time)
        return dataclasses.replace(self, event_time=event_time)


@dataclass(frozen=True)
class RangeWindows(_TimeWindows):
    """Windows over a period of time; created by `range_windows`, completed by `over`."""

    range_ns: int
    slide_ns: int | None = None

    def with_slide(self, slide: AnyDuration) -> RangeWindows:
        """Start a window every *slide*, which must not exceed the range.

        Without it, each window starts where the previous one ends.
        """
        _check_unset("with_slide", self.slide_ns)
        ns = duration_ns("slide", slide)
        if not 0 < ns <= self.range_ns:
            msg = f"the slide is {ns} ns; it must be positive and at most {self.range_ns} ns"
            raise WallarooParameterError(msg)
        return dataclasses.replace(self, slide_ns=ns)


@dataclass(frozen=True)
class SessionWindows(_TimeWindows):
    """Windows that a pause ends; created by `session_windows`, completed by `over`."""

    gap_ns: int


@dataclass(frozen=True)
class CountWindows(_Windows):
    """Windows of a number of messages; created by `count_windows`, completed by `over`."""

    count: int
    timeout_ns: int | None = None

    def with_timeout(self, timeout: AnyDuration) -> CountWindows:
        """Close an incomplete window when its key has been silent for *timeout*.

        Without it, an incomplete window waits for messages indefinitely.
        """
        _check_unset("with_timeout", self.timeout_ns)
        return dataclasses.replace(self, timeout_ns=positive_ns("timeout", timeout))


AnyWindows = RangeWindows | SessionWindows | CountWindows


@keyword_aliases(wrange="range")
def range_windows(range: AnyDuration) -> RangeWindows:  # noqa: A002  (the name that applications use)
    """Declare windows of *range* for each key, aligned to the Unix epoch.

    A window closes and emits its output once its end plus its delay has passed, according to the
    times of its key's messages or, while the key is silent, to the clock. A window without messages
    emits nothing.

    Args:
        range: Length of a window: a `timedelta`, or the result of `seconds` or a similar function.

    Raises:
        WallarooParameterError: It is not positive, or a bare number.

    Example:
        >>> from wallaroo.api.durations import minutes, seconds
        >>> range_windows(minutes(1)).with_slide(seconds(10)).with_delay(seconds(5)).slide_ns
        10000000000
    """
    return RangeWindows(positive_ns("range", range))


def session_windows(gap: AnyDuration) -> SessionWindows:
    """Declare windows for each key that a pause of *gap* ends.

    Messages of a key are in the same session if less than *gap* lies between the time of each and
    that of the next one. A message between two open sessions joins them. A session ends *gap* after
    its last message; it closes and emits its output once its end plus its delay has passed,
    according to the times of its key's messages or, while the key is silent, to the clock.

    Args:
        gap: Length of the pause: a `timedelta`, or the result of `seconds` or a similar function.

    Raises:
        WallarooParameterError: It is not positive, or a bare number.

    Example:
        >>> from wallaroo.api.durations import minutes, seconds
        >>> session_windows(minutes(30)).with_delay(seconds(5)).gap_ns == minutes(30)
        True
    """
    return SessionWindows(positive_ns("gap", gap))


@keyword_aliases(wrange="count")
def count_windows(count: int) -> CountWindows:
    """Declare windows of *count* messages for each key.

    Example:
        >>> count_windows(5).count
        5
    """
    return CountWindows(positive_integer("the count", count))


def _check_unset(method: str, value: Any) -> None:
    if value is not None:
        msg = f"{method} has already been called on these windows; call it once"
        raise WallarooParameterError(msg)
