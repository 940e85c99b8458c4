"""Ready-made aggregations: counts, sums, the largest messages, and others.

Their accumulators are lists of plain values, so that saved ones depend on no class.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, overload

from wallaroo.api.aggregations import Aggregation, Window
from wallaroo.api.integers import positive_integer

In = TypeVar("In")
"""Type of the messages."""
Value = TypeVar("Value")
"""Type of what a message counts with."""
Out = TypeVar("Out")
"""Type of the value of a window."""


def itself(message: Any) -> Any:
    """Return *message*."""
    return message


def _rank(value: Any) -> tuple[bool, Any]:
    """By what *value* is compared: one that is not equal to itself (NaN) is below all others."""
    return value == value, value  # noqa: PLR0124


def checked_function(name: str, function: Any) -> Any:
    """Return *function*, if it can be called.

    Raises:
        TypeError: It cannot be called with a message, or is an async function.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        msg = f"{name} is {function!r}; expected a function from a message to a value"
        raise TypeError(msg)
    with contextlib.suppress(ValueError):  # a builtin without a signature
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            msg = f"{name} is called with (message): {error}"
            raise TypeError(msg) from None
    return function


@dataclass(frozen=True, slots=True)
class Aggregated(Generic[Out]):
    """The output of a ready-made aggregation.

    Example:
        >>> result = Aggregated("tea", 3, Window(0, 60_000_000_000))
        >>> f"{result.window.start:%H:%M} {result.key}: {result.value}"
        '00:00 tea: 3'
    """

    key: Any
    """The key of the window's messages."""
    value: Out
    """What was computed of them."""
    window: Window
    """The window."""


class ReadyAggregation(Aggregation[In, list[Any], Aggregated[Out]], Generic[In, Out]):
    """Base class of the aggregations whose output is an `Aggregated`.

    An accumulator is a list that `reduce` keeps short: it gets the accumulator with one more value,
    or the values of two accumulators. In windows that overlap and sessions that merge, it is that
    of the earlier part that comes first.
    """

    grows = False
    """Whether all values are kept."""
    _name: str | None = None

    def named(self, name: str) -> Self:
        """Return the same aggregation with a name, which its step and their state then have.

        By default, they have the name of the class, which another step may have, too.

        Example:
            >>> Count().named("orders per minute").name()
            'orders per minute'
        """
        made = copy.copy(self)
        vars(made)["_name"] = name
        return made

    def name(self) -> str:
        """Return the name of the step."""
        return type(self).__name__ if self._name is None else self._name

    def counted(self, message: In) -> Any:
        """What *message* counts with."""
        return message

    def reduce(self, values: list[Any]) -> list[Any]:
        """Reduce *values*, of which there is at least one, without changing them."""
        raise NotImplementedError

    def value(self, accumulator: list[Any]) -> Out:
        """The value of a window."""
        found: Out = accumulator[0]
        return found

    def initial_accumulator(self) -> list[Any]:
        """Return a list without values."""
        return []

    def update(self, message: In, accumulator: list[Any], /) -> None:
        """Add what *message* counts with."""
        value = self.counted(message)
        if self.grows:
            accumulator.append(value)
        else:  # which may raise, and changes nothing then
            accumulator[:] = self.reduce([*accumulator, value])

    def combine(self, one: list[Any], other: list[Any], /) -> list[Any]:
        """Reduce the values of both."""
        values = [*one, *other]
        return self.reduce(values) if values else values

    def output(self, key: Any, accumulator: list[Any], /, window: Window) -> Aggregated[Out]:
        """Return key, value and window."""
        return Aggregated(key, self.value(accumulator), window)


class Count(ReadyAggregation[Any, int]):
    """Counts messages.

    Example:
        >>> from wallaroo.api.durations import minutes
        >>> from wallaroo.api.windows import range_windows
        >>> windowing = range_windows(minutes(1)).over(Count)
    """

    def counted(self, _message: Any) -> int:
        """Count each message once."""
        return 1

    def reduce(self, values: list[int]) -> list[int]:
        """Add them up."""
        return [sum(values)]


class _OfValues(ReadyAggregation[In, Out], Generic[In, Value, Out]):
    """An aggregation of what a function returns of each message."""

    @overload
    def __init__(self: _OfValues[In, In, Out]) -> None: ...

    @overload
    def __init__(self, of: Callable[[In], Value]) -> None: ...

    def __init__(self, of: Callable[[In], Any] = itself) -> None:
        self._of = checked_function("of", of)

    def counted(self, message: In) -> Any:
        """Return what the function does."""
        return self._of(message)


class Sum(_OfValues[In, Value, Value]):
    """Adds values up, by `+`.

    Args:
        of: Returns the value of a message; by default, messages are values themselves. The same
            holds for the other aggregations.

    Example:
        >>> total = Sum(of=len)
        >>> accumulator = total.initial_accumulator()
        >>> for message in "two", "words":
        ...     total.update(message, accumulator)
        >>> total.value(accumulator)
        8
    """

    def reduce(self, values: list[Any]) -> list[Any]:
        """Add them up."""
        return [functools.reduce(operator.add, values)]


class Mean(_OfValues[In, float, float]):
    """The arithmetic mean of values."""

    def counted(self, message: In) -> tuple[int, float]:
        """Return a number of values, and their sum."""
        return 1, self._of(message)

    def reduce(self, values: list[tuple[int, float]]) -> list[Any]:
        """Add up both."""
        counts, totals = zip(*values, strict=True)
        return [(sum(counts), sum(totals))]

    def value(self, accumulator: list[Any]) -> float:
        """Divide the sum by the number."""
        ((count, total),) = accumulator
        mean: float = total / count
        return mean


class Min(_OfValues[In, Value, Value]):
    """The smallest value; the first of equal ones, and NaN only if there is nothing else."""

    def reduce(self, values: list[Any]) -> list[Any]:
        """Return the smallest."""
        return [min(values, key=lambda value: (value != value, value))]  # noqa: PLR0124


class Max(_OfValues[In, Value, Value]):
    """The largest value; the first of equal ones, and NaN only if there is nothing else."""

    def reduce(self, values: list[Any]) -> list[Any]:
        """Return the largest."""
        return [max(values, key=_rank)]


class First(_OfValues[In, Value, Value]):
    """The first value in order of arrival; see `ReadyAggregation` for parts of windows."""

    def reduce(self, values: list[Any]) -> list[Any]:
        """Return the first."""
        return values[:1]


class Last(_OfValues[In, Value, Value]):
    """The last value in order of arrival; see `ReadyAggregation` for parts of windows."""

    def reduce(self, values: list[Any]) -> list[Any]:
        """Return the last."""
        return values[-1:]


class Collect(_OfValues[In, Value, list[Value]]):
    """A list of all values in order, as of `First`; it takes as much memory as they do."""

    grows = True

    @overload
    def __init__(self: Collect[In, In]) -> None: ...

    @overload
    def __init__(self, of: Callable[[In], Value]) -> None: ...

    def __init__(self, of: Callable[[In], Any] = itself) -> None:
        super().__init__(of)

    def reduce(self, values: list[Any]) -> list[Any]:
        """Return them all."""
        return values

    def value(self, accumulator: list[Any]) -> list[Value]:
        """Return a copy of the list."""
        return list(accumulator)


class Top(_OfValues[In, Value, list[Value]]):
    """The values of the messages with the highest ranks, the highest first.

    Args:
        count: How many.
        by: Returns the rank of a message; the first of equal ones counts as higher, and NaN as
            lowest. By default, values are their own ranks.
        of: Returns the value of a message; by default, messages are values themselves.

    Raises:
        WallarooParameterError: *count* is not positive.

    Example:
        >>> longest = Top(2, by=len)
        >>> accumulator = longest.initial_accumulator()
        >>> for word in "to", "be", "or", "not":
        ...     longest.update(word, accumulator)
        >>> longest.value(accumulator)
        ['not', 'to']
    """

    @overload
    def __init__(self: Top[In, In], count: int, by: Callable[[In], Any] | None = None) -> None: ...

    @overload
    def __init__(
        self, count: int, by: Callable[[In], Any] | None = None, *, of: Callable[[In], Value]
    ) -> None: ...

    def __init__(
        self,
        count: int,
        by: Callable[[In], Any] | None = None,
        of: Callable[[In], Any] = itself,
    ) -> None:
        super().__init__(of)
        self._count = positive_integer("the count", count)
        self._by = of if by is None else checked_function("by", by)

    def counted(self, message: In) -> tuple[Any, Value]:
        """Return rank and value."""
        return self._by(message), self._of(message)

    def reduce(self, values: list[tuple[Any, Value]]) -> list[Any]:
        """Return the highest."""
        ranked = sorted(values, key=lambda pair: _rank(pair[0]), reverse=True)
        return ranked[: self._count]

    def value(self, accumulator: list[tuple[Any, Value]]) -> list[Value]:
        """Return the values without their ranks."""
        return [value for _, value in accumulator]


class Aggregations(ReadyAggregation[In, dict[str, Any]]):
    """Several ready-made aggregations of the same windows; the value has one for each name.

    Args:
        parts: The aggregations.

    Raises:
        TypeError: One of them is another object.

    Example:
        >>> figures = Aggregations(number=Count(), longest=Max(len))
        >>> accumulator = figures.initial_accumulator()
        >>> for word in "to", "be", "or", "not":
        ...     figures.update(word, accumulator)
        >>> figures.value(accumulator)
        {'number': 4, 'longest': 3}
    """

    def __init__(self, **parts: ReadyAggregation[In, Any]) -> None:
        if not parts:
            msg = "Aggregations is given none; write Aggregations(number=Count(), …)"
            raise TypeError(msg)
        for name, part in parts.items():
            if not isinstance(part, ReadyAggregation) or isinstance(part, Aggregations):
                due = "another ready-made aggregation than Aggregations, such as Count()"
                msg = f"Aggregations is given {name}={part!r}; expected {due}"
                raise TypeError(msg)
        self._parts = parts

    def initial_accumulator(self) -> list[Any]:
        """Return an accumulator for each."""
        return [part.initial_accumulator() for part in self._parts.values()]

    def update(self, message: In, accumulator: list[Any], /) -> None:
        """Update all, or none if one of them cannot."""
        counted = [part.counted(message) for part in self._parts.values()]
        of_parts = list(zip(self._parts.values(), accumulator, counted, strict=True))
        made = [part.grows or part.reduce([*one, value]) for part, one, value in of_parts]
        for number, (part, one, value) in enumerate(of_parts):
            if part.grows:
                one.append(value)
            else:
                accumulator[number] = made[number]

    def combine(self, one: list[Any], other: list[Any], /) -> list[Any]:
        """Combine the accumulators of each."""
        both = zip(self._parts.values(), one, other, strict=True)
        return [part.combine(of_one, of_other) for part, of_one, of_other in both]

    def value(self, accumulator: list[Any]) -> dict[str, Any]:
        """Return the value of each, by its name."""
        both = zip(self._parts.items(), accumulator, strict=True)
        return {name: part.value(of_part) for (name, part), of_part in both}
