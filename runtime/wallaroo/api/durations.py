"""Durations: `timedelta`, or numbers of nanoseconds that know that they are durations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, overload

from wallaroo.errors import WallarooParameterError

EventTime = Callable[[Any], int | datetime]
"""From a message to its time: nanoseconds since the Unix epoch, or a datetime with a time zone."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SURELY_NS = 10_000_000
"""Bare numbers from this one on are hardly seconds: it would be four months."""


class Duration(int):
    """A number of nanoseconds, as `seconds` and similar functions return it.

    It is an `int` that sums, differences and multiples keep apart from bare numbers, so that
    `range_windows(60)` can be refused: a reader cannot tell whether that is a minute or 60 ns. With
    a bare number, such as a time, sums and differences are bare numbers.

    Example:
        >>> minutes(1) + seconds(30) == 3 * seconds(30)
        True
        >>> seconds(3) // seconds(2), type(seconds(3) // 2).__name__
        (1, 'Duration')
    """

    @overload
    def __add__(self, other: Duration) -> Duration: ...

    @overload
    def __add__(self, other: int) -> int: ...

    def __add__(self, other: int) -> int:
        total = int(self) + other
        return Duration(total) if isinstance(other, Duration) else total

    @overload
    def __sub__(self, other: Duration) -> Duration: ...

    @overload
    def __sub__(self, other: int) -> int: ...

    def __sub__(self, other: int) -> int:
        difference = int(self) - other
        return Duration(difference) if isinstance(other, Duration) else difference

    def __mul__(self, other: int) -> Duration:
        return Duration(int(self) * other)

    __rmul__ = __mul__

    @overload
    def __floordiv__(self, other: Duration) -> int: ...  # type: ignore[overload-overlap]

    @overload
    def __floordiv__(self, other: int) -> Duration: ...

    def __floordiv__(self, other: int) -> int:
        quotient = int(self) // other
        return quotient if isinstance(other, Duration) else Duration(quotient)


AnyDuration = Duration | timedelta
"""What is accepted as a duration."""


def nanoseconds(number: int) -> Duration:
    """Return a duration of *number* nanoseconds.

    Example:
        >>> nanoseconds(5)
        5
    """
    return Duration(number)


def microseconds(number: float) -> Duration:
    """Return a duration of *number* microseconds, in nanoseconds.

    Example:
        >>> microseconds(5)
        5000
    """
    return Duration(number * 1_000)


def milliseconds(number: float) -> Duration:
    """Return a duration of *number* milliseconds, in nanoseconds.

    Example:
        >>> milliseconds(5)
        5000000
    """
    return Duration(number * 1_000_000)


def seconds(number: float) -> Duration:
    """Return a duration of *number* seconds, in nanoseconds.

    Example:
        >>> seconds(0.5)
        500000000
    """
    return Duration(number * 1_000_000_000)


def minutes(number: float) -> Duration:
    """Return a duration of *number* minutes, in nanoseconds.

    Example:
        >>> minutes(1) == seconds(60)
        True
    """
    return seconds(number * 60)


def hours(number: float) -> Duration:
    """Return a duration of *number* hours, in nanoseconds.

    Example:
        >>> hours(1) == minutes(60)
        True
    """
    return minutes(number * 60)


def duration_ns(name: str, value: Any, *, bare: bool = False) -> int:
    """Return the nanoseconds of the duration *value*, which a message calls *name*.

    Args:
        name: What it is called.
        value: The duration.
        bare: Whether a bare integer is a number of nanoseconds.

    Raises:
        WallarooParameterError: It is a number without a unit.
        TypeError: It is not a duration.

    Example:
        >>> duration_ns("range", timedelta(minutes=1))
        60000000000
        >>> duration_ns("range", 60)
        Traceback (most recent call last):
            ...
        wallaroo.errors.WallarooParameterError: the range is 60, without a unit; write ...
    """
    if isinstance(value, timedelta):
        return value // _MICROSECOND * 1_000
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, Duration) or (is_integer and (bare or value == 0)):
        return int(value)  # 0 is the same in any unit
    if is_integer or isinstance(value, float):
        in_ns = f"wallaroo.nanoseconds({value!r})"
        if value < _SURELY_NS:
            in_s = f"wallaroo.seconds({value!r}) or timedelta(seconds={value!r})"
            hint = f"{in_s}, or {in_ns} if it is in nanoseconds"
        else:
            hint = f"{in_ns} if it is in nanoseconds"
        msg = f"the {name} is {value!r}, without a unit; write {hint}"
        raise WallarooParameterError(msg)
    msg = (
        f"the {name} is {value!r}; expected a duration, such as wallaroo.seconds(5) or a "
        "datetime.timedelta"
    )
    raise TypeError(msg)


def positive(name: str, ns: int) -> int:
    """Return *ns*, the nanoseconds of a duration that a message calls *name*.

    Raises:
        WallarooParameterError: It is not positive.

    Example:
        >>> positive("gap", 5)
        5
    """
    if ns <= 0:
        msg = f"the {name} is {ns} ns; it must be positive"
        raise WallarooParameterError(msg)
    return ns


def positive_ns(name: str, value: Any) -> int:
    """Return the nanoseconds of the duration *value*, which must be positive; see `duration_ns`."""
    return positive(name, duration_ns(name, value))


def not_negative_ns(name: str, value: Any, *, bare: bool = False) -> int:
    """Return the nanoseconds of the duration *value*, which can be 0; see `duration_ns`.

    Raises:
        WallarooParameterError: *value* is negative, or a number without a unit.
        TypeError: *value* is not a duration.
    """
    ns = duration_ns(name, value, bare=bare)
    if ns < 0:
        msg = f"the {name} is {ns} ns; it must not be negative"
        raise WallarooParameterError(msg)
    return ns


def since_epoch_ns(time: Any, name: str = "event time") -> int:
    """Return the nanoseconds from the Unix epoch to *time*, an int of them or an aware datetime.

    Messages call it *name*.

    Raises:
        TypeError: It is neither.

    Example:
        >>> since_epoch_ns(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
        1000000000
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return int(time)  # a `Duration` would be saved as one
    if isinstance(time, datetime):
        if time.tzinfo is None:
            msg = f"the {name} is {time!r}, without a time zone; give it one, such as UTC"
            raise TypeError(msg)
        return (time - _EPOCH) // _MICROSECOND * 1_000
    msg = (
        f"the {name} is {time!r}; expected an int, nanoseconds since the Unix epoch, or a "
        "datetime with a time zone"
    )
    raise TypeError(msg)


def time_of(ns: int) -> datetime:
    """Return the time *ns* nanoseconds after the Unix epoch, in UTC, to the microsecond.

    Example:
        >>> time_of(1_500_000_000).isoformat()
        '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + timedelta(microseconds=ns // 1_000)
