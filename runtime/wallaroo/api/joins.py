"""Decorators for functions that join a message of one pipeline with a message of another.

`Pipeline.join` takes the decorated function: `orders.join(customers, enrich)`. Messages are joined
if they have the same key. The pipeline on which `join` is called is the left one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from wallaroo.api.durations import AnyDuration, EventTime, not_negative_ns, positive_ns
from wallaroo.api.functions import Decorated, Result, Result_co
from wallaroo.api.places import Place
from wallaroo.errors import WallarooParameterError

How = Literal["inner", "left"]
"""How to handle a left message without a match: drop it, or emit an output without a right one."""
Left = TypeVar("Left")
"""Type of the messages of the left pipeline."""
Right = TypeVar("Right")
"""Type of the messages of the right pipeline."""
Left_contra = TypeVar("Left_contra", contravariant=True)
"""The same, contravariant: a function that accepts a type accepts its subtypes, too."""
Right_contra = TypeVar("Right_contra", contravariant=True)
"""The same for the right one."""


class Join(
    Decorated[[Left_contra, Right_contra], Result_co],
    Generic[Left_contra, Right_contra, Result_co],
):
    """A function of a left and a right message; the base class of decorated functions.

    Attributes:
        name: Name of the step in logs, metrics and errors.
        how: How to handle a left message without a match.
        settings: What else a subclass declares.
    """

    def __init__(
        self,
        function: Callable[[Left_contra, Right_contra], Result_co],
        name: str,
        how: How,
        **settings: Any,
    ) -> None:
        super().__init__(function)
        self.name = name
        self.how = how
        vars(self).update(settings)


@dataclass(frozen=True)
class EventTimes:
    """From a message to its time, and how late it may come."""

    left: EventTime
    right: EventTime
    delay_ns: int
    """How long a message is waited for, in nanoseconds."""


class TableJoin(Join[Left_contra, Right_contra, Result_co]):
    """Joins each left message with the last right one that has come; see `table_join`."""

    ttl_ns: int | None
    deleted: Callable[[Any], object] | None
    table_first: bool


class AsOfJoin(Join[Left_contra, Right_contra, Result_co]):
    """Joins each left message with the right one of its time; see `asof_join`."""

    tolerance_ns: int
    times: EventTimes


class IntervalJoin(Join[Left_contra, Right_contra, Result_co]):
    """Joins all messages whose times are near each other; see `interval_join`."""

    before_ns: int
    after_ns: int
    times: EventTimes | None


@dataclass(frozen=True, eq=False)
class JoinCall:
    """One call of `Pipeline.join`."""

    join: Any
    """A `Join`, if the application is valid."""
    place: Place


@dataclass(frozen=True)
class JoinInput:
    """One of the two inputs of a join, as a step of the pipeline that it comes from."""

    call: JoinCall
    is_left: bool


@overload
def table_join(
    name: str,
    *,
    how: Literal["inner"] = "inner",
    ttl: AnyDuration | None = None,
    deleted: Callable[[Any], object] | None = None,
    table_first: bool = False,
) -> Callable[[Callable[[Left, Right], Result]], TableJoin[Left, Right, Result]]: ...


@overload
def table_join(
    name: str,
    *,
    how: Literal["left"],
    ttl: AnyDuration | None = None,
    deleted: Callable[[Any], object] | None = None,
    table_first: bool = False,
) -> Callable[[Callable[[Left, Right | None], Result]], TableJoin[Left, Right, Result]]: ...


def table_join(
    name: str,
    *,
    how: Any = "inner",
    ttl: AnyDuration | None = None,
    deleted: Callable[[Any], object] | None = None,
    table_first: bool = False,
) -> Any:
    """Declare a join of each left message with the last right message of its key that has come.

    Right messages only update what left ones are joined with. The order of arrival counts.

    Args:
        name: Name of the step.
        how: `"inner"` to drop a left message whose key has no right one; `"left"` to call the
            function with None for it.
        ttl: Time for which a right message is kept while neither side has a message of its key: a
            `timedelta`, or the result of `seconds` or a similar function. None keeps it.
        deleted: Function of a right message that returns whether it deletes the one before it, as a
            tombstone of a compacted topic does; it is not kept itself. None keeps every one.
        table_first: Whether, at each start, sources of left messages are read only once those of
            right ones have been read to the end that they had then.

    Returns:
        A decorator for a function of a left and a right message, which returns the output, or None
        for none. It must not change the right message, which is kept.

    Raises:
        TypeError: The *ttl* is not a duration.
        WallarooParameterError: The *ttl* is not positive, or *how* is something else.

    Example:
        >>> @table_join(name="add country", how="left")
        ... def add_country(order, customer):
        ...     return (order, customer["country"] if customer else "unknown")
        >>> add_country(7, None)
        (7, 'unknown')
    """
    _check_how(how)
    ttl_ns = None if ttl is None else positive_ns("ttl", ttl)
    more = {"ttl_ns": ttl_ns, "deleted": deleted, "table_first": table_first}
    return lambda function: TableJoin(function, name, how, **more)


@overload
def asof_join(
    name: str,
    *,
    tolerance: AnyDuration,
    left_time: EventTime,
    right_time: EventTime,
    delay: AnyDuration,
    how: Literal["inner"] = "inner",
) -> Callable[[Callable[[Left, Right], Result]], AsOfJoin[Left, Right, Result]]: ...


@overload
def asof_join(
    name: str,
    *,
    tolerance: AnyDuration,
    left_time: EventTime,
    right_time: EventTime,
    delay: AnyDuration,
    how: Literal["left"],
) -> Callable[[Callable[[Left, Right | None], Result]], AsOfJoin[Left, Right, Result]]: ...


def asof_join(
    name: str,
    *,
    tolerance: AnyDuration,
    left_time: EventTime,
    right_time: EventTime,
    delay: AnyDuration,
    how: Any = "inner",
) -> Any:
    """Declare a join of each left message with the latest right one that is not later than it.

    The times in the messages count, not the order in which they come.

    Args:
        name: Name of the step.
        tolerance: How much earlier than the left message the right one may be.
        left_time: Function from a left message to its time: an int, nanoseconds since the Unix
            epoch, or a datetime with a time zone.
        right_time: The same for right messages.
        delay: How long a left message waits for right ones of its time. 0, as of `seconds(0)`,
            joins it at once with the messages that have arrived.
        how: `"inner"` to drop a left message without a match; `"left"` to call the function with
            None for it.

    Returns:
        A decorator for a function of a left and a right message, which returns the output, or None
        for none. It must not change the right message, which is kept.

    Raises:
        TypeError: An argument has another type.
        WallarooParameterError: A duration is negative or has no unit, or *how* is something else.

    Example:
        >>> from wallaroo.api.durations import seconds
        >>> @asof_join(
        ...     name="value",
        ...     tolerance=seconds(10),
        ...     left_time=lambda trade: trade["time"],
        ...     right_time=lambda quote: quote["time"],
        ...     delay=seconds(1),
        ... )
        ... def value(trade, quote):
        ...     return trade["amount"] * quote["price"]
        >>> value({"time": 3, "amount": 2}, {"time": 1, "price": 5})
        10
    """
    _check_how(how)
    tolerance_ns = not_negative_ns("tolerance", tolerance)
    times = EventTimes(left_time, right_time, not_negative_ns("delay", delay))
    return lambda function: AsOfJoin(function, name, how, tolerance_ns=tolerance_ns, times=times)


@overload
def interval_join(
    name: str,
    *,
    before: AnyDuration,
    after: AnyDuration,
    how: Literal["inner"] = "inner",
    left_time: EventTime | None = None,
    right_time: EventTime | None = None,
    delay: AnyDuration | None = None,
) -> Callable[[Callable[[Left, Right], Result]], IntervalJoin[Left, Right, Result]]: ...


@overload
def interval_join(
    name: str,
    *,
    before: AnyDuration,
    after: AnyDuration,
    how: Literal["left"],
    left_time: EventTime | None = None,
    right_time: EventTime | None = None,
    delay: AnyDuration | None = None,
) -> Callable[[Callable[[Left, Right | None], Result]], IntervalJoin[Left, Right, Result]]: ...


def interval_join(
    name: str,
    *,
    before: AnyDuration,
    after: AnyDuration,
    how: Any = "inner",
    left_time: EventTime | None = None,
    right_time: EventTime | None = None,
    delay: AnyDuration | None = None,
) -> Any:
    """Declare a join of all pairs of messages of a key whose times are near each other.

    Args:
        name: Name of the step.
        before: How much earlier than the left message a right one may be.
        after: How much later than the left message a right one may be.
        how: `"inner"` for pairs alone; `"left"` to call the function also for a left message that
            has no match and can no longer get one, with None as the right message.
        left_time: Function from a left message to its time: an int, nanoseconds since the Unix
            epoch, or a datetime with a time zone. Without it, the time of arrival counts.
        right_time: The same for right messages; give both or neither.
        delay: With these times, how much longer messages are kept than the bounds require, for
            messages that come late. `seconds(0)` keeps them no longer.

    Returns:
        A decorator for a function of a left and a right message, which returns the output, or None
        for none. It must not change the messages, which are kept.

    Raises:
        TypeError: An argument has another type.
        WallarooParameterError: A duration is negative or has no unit, *how* is something else, or
            the times and the delay do not go together.

    Example:
        >>> from wallaroo.api.durations import minutes, seconds
        >>> @interval_join(name="paid", before=seconds(0), after=minutes(5), how="left")
        ... def paid(order, payment):
        ...     return f"{order}: {'paid' if payment else 'not paid'}"
        >>> paid("order 7", None)
        'order 7: not paid'
    """
    _check_how(how)
    bounds = {
        "before_ns": not_negative_ns("bound before", before),
        "after_ns": not_negative_ns("bound after", after),
    }
    times = None
    if left_time is not None and right_time is not None:
        if delay is None:
            msg = (
                "with left_time and right_time, say with delay=… how late messages may come: "
                "wallaroo.seconds(0) if they never do"
            )
            raise WallarooParameterError(msg)
        times = EventTimes(left_time, right_time, not_negative_ns("delay", delay))
    elif left_time is not None or right_time is not None:
        given, other = ("left", "right") if right_time is None else ("right", "left")
        msg = (
            f"interval_join is given {given}_time without {other}_time; give both, or neither to "
            "join by the time of arrival"
        )
        raise WallarooParameterError(msg)
    elif delay is not None:
        msg = (
            "delay has no effect without left_time and right_time, as no message is late by its "
            "time of arrival; omit it"
        )
        raise WallarooParameterError(msg)
    return lambda function: IntervalJoin(function, name, how, **bounds, times=times)


def _check_how(how: Any) -> None:
    if how not in get_args(How):
        expected = " or ".join(map(repr, get_args(How)))
        hint = ""
        if how == "right":
            hint = "; for a right join, call join on the other pipeline"
        msg = f"how is {how!r}; expected {expected}{hint}"
        raise WallarooParameterError(msg)
