"""Aggregations, which compute the output of a window from its messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from wallaroo.api.durations import time_of

In_contra = TypeVar("In_contra", contravariant=True)
"""Type of the messages that are aggregated; an aggregation of a type accepts its subtypes, too."""
Accumulator = TypeVar("Accumulator")
"""Type of the accumulator."""
Out_co = TypeVar("Out_co", covariant=True)
"""Type of a window's output; an instance of a type is an instance of its supertypes, too."""


@dataclass(frozen=True)
class Window:
    """The window of an output, for an `output` with a third parameter.

    Example:
        >>> window = Window(0, 60_000_000_000)
        >>> f"{window.start:%H:%M} to {window.end:%H:%M}"
        '00:00 to 00:01'
    """

    start_ns: int
    """Its start, in nanoseconds since the Unix epoch. Of a session, the time of its first message;
    of a number of messages, the arrival of the first."""
    end_ns: int
    """Its end, likewise; messages of this time are not in it. Of a session, the time of its last
    message plus the gap; of a number of messages, the arrival of the last, which is in it."""
    is_final: bool = True
    """Whether the window has closed; False for an early result."""

    @property
    def start(self) -> datetime:
        """Its start, in UTC, to the microsecond."""
        return time_of(self.start_ns)

    @property
    def end(self) -> datetime:
        """Its end, in UTC, to the microsecond."""
        return time_of(self.end_ns)


class AggregationClass(Protocol[In_contra, Accumulator, Out_co]):
    """Any object with the methods of an `Aggregation`, as in Wallaroo."""

    def initial_accumulator(self) -> Accumulator:
        """See `Aggregation`."""

    def update(self, message: In_contra, accumulator: Accumulator, /) -> object:
        """See `Aggregation`."""

    def combine(self, one: Accumulator, other: Accumulator, /) -> Accumulator:
        """See `Aggregation`."""

    def output(self, key: Any, accumulator: Accumulator, /, *args: Any, **kwargs: Any) -> Out_co:
        """See `Aggregation`."""


class Aggregation(ABC, Generic[In_contra, Accumulator, Out_co]):
    """Computes the output of a window from its messages.

    Subclass it and pass an instance to `over`, or the class if it is created without arguments. One
    instance serves all keys, so what belongs to a key must be in the accumulator.

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
    def update(self, message: In_contra, accumulator: Accumulator, /) -> None:
        """Add *message* to *accumulator*, in place."""

    @abstractmethod
    def combine(self, one: Accumulator, other: Accumulator, /) -> Accumulator:
        """Return a new accumulator with the messages of *one*, followed by those of *other*."""

    @abstractmethod
    def output(
        self,
        key: Any,
        accumulator: Accumulator,
        /,
        *args: Any,  # typed so that a checker accepts subclasses with and without a window
        **kwargs: Any,
    ) -> Out_co | None:
        """Return the output of a window of *key*, or None to emit nothing.

        Define it as `output(self, key, accumulator)`, or with a third parameter, *window*, to get
        the window's start and end, too: a `Window`. It must not modify the accumulator, which
        is still used after an early result.
        """
