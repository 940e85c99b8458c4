"""Decorators for functions of a message and the state entity of its key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, overload

from wallaroo.api.durations import AnyDuration, EventTime, positive_ns
from wallaroo.api.functions import Decorated, In, In_contra, Result, Result_co, Results, State
from wallaroo.api.timers import Timers
from wallaroo.errors import WallarooParameterError

OnTimer = TypeVar("OnTimer")
"""Result of the function that timers call."""
Called_co = TypeVar("Called_co", covariant=True)
"""The same, of a declared computation."""
OnTimers = TypeVar("OnTimers", bound=Iterable[Any] | None)
"""Result of such a function that returns any number of messages."""


class AnyStateComputation(
    Decorated[[In_contra, State], Result_co], Generic[In_contra, State, Result_co]
):
    """A function of a message and the state entity of its key.

    Attributes:
        multi: Whether the output is an iterable of messages.
        name: Name of the step in logs, metrics and errors.
        state: Class of the entity; None if the pipeline specifies it and the function returns a
            pair `(output, save)`.
    """

    multi: ClassVar[bool]

    def __init__(
        self,
        function: Callable[[In_contra, State], Result_co],
        name: str,
        state: type[State] | None,
        timing: StateTiming | None = None,
    ) -> None:
        super().__init__(function)
        self.name = name
        self.state = state
        self.timing = StateTiming() if timing is None else timing


@dataclass(frozen=True)
class StateTiming:
    """What a state computation declares of time."""

    ttl_ns: int | None = None
    """Time after which an idle entity is freed, in nanoseconds; None to keep it."""
    on_timer: Callable[[str, Any, Timers], Any] | None = None
    """Called when a timer is due; None if the computation has no timers."""
    event_time: EventTime | None = None
    """From a message to its time; None for its time of arrival."""

    @classmethod
    def of(
        cls,
        ttl: AnyDuration | None,
        on_timer: Callable[[str, Any, Timers], Any] | None,
        event_time: EventTime | None,
    ) -> StateTiming:
        """Check the arguments of a decorator.

        Raises:
            TypeError: The time to live has another type.
            WallarooParameterError: It is not positive or has no unit, or the event time is of no
                use.
        """
        ttl_ns = None if ttl is None else positive_ns("ttl", ttl)
        if event_time is not None and ttl is None and on_timer is None:
            msg = "event_time has no effect without ttl or on_timer; omit it"
            raise WallarooParameterError(msg)
        return cls(ttl_ns, on_timer, event_time)


class StateComputation(AnyStateComputation[In_contra, State, Result_co]):
    """A function of a message and a state entity that returns at most one message."""

    multi = False


class MultiStateComputation(AnyStateComputation[In_contra, State, Result_co]):
    """A function of a message and a state entity that returns any number of messages."""

    multi = True


class TimedStateComputation(
    StateComputation[In_contra, State, Result_co], Generic[In_contra, State, Result_co, Called_co]
):
    """A state computation with timers, which its function receives as a third argument."""

    def __call__(  # type: ignore[override]
        self, message: In_contra, state: State, timers: Timers
    ) -> Result_co:
        """Call the undecorated function."""
        return self.function(message, state, timers)  # type: ignore[call-arg]


class TimedMultiStateComputation(
    MultiStateComputation[In_contra, State, Result_co],
    Generic[In_contra, State, Result_co, Called_co],
):
    """The same, for any number of messages."""

    def __call__(  # type: ignore[override]
        self, message: In_contra, state: State, timers: Timers
    ) -> Result_co:
        """Call the undecorated function."""
        return self.function(message, state, timers)  # type: ignore[call-arg]


@overload
def state_computation(
    name: str,
    state: type[State],
    *,
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[[Callable[[In, State], Result]], StateComputation[In, State, Result]]: ...


@overload
def state_computation(
    name: str,
    state: type[State],
    *,
    on_timer: Callable[[str, State, Timers], OnTimer],
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[
    [Callable[[In, State, Timers], Result]],
    TimedStateComputation[In, State, Result, OnTimer],
]: ...


@overload
def state_computation(
    name: str,
    state: None = None,
    *,
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[
    [Callable[[In, State], tuple[Result, Any]]], StateComputation[In, State, tuple[Result, Any]]
]: ...


@overload
def state_computation(
    name: str,
    state: None = None,
    *,
    on_timer: Callable[[str, State, Timers], tuple[OnTimer, Any]],
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[
    [Callable[[In, State, Timers], tuple[Result, Any]]],
    TimedStateComputation[In, State, tuple[Result, Any], tuple[OnTimer, Any]],
]: ...


def state_computation(
    name: str,
    state: Any = None,
    *,
    ttl: AnyDuration | None = None,
    on_timer: Callable[..., Any] | None = None,
    event_time: EventTime | None = None,
) -> Any:
    """Declare a computation over a message and the state entity of its key.

    Args:
        name: Name of the step.
        state: Class of the entity, created without arguments for each new key. If it is given, the
            function returns only its output. Otherwise the builder call specifies the class, and
            the function returns a pair `(output, save)`, where *save* False promises that the
            entity was not changed, so that it need not be written.
        ttl: Time for which an idle entity is kept, a timedelta or such as `hours(1)`. An entity is
            idle from its last message or call of a timer, unless a timer is set. None keeps it.
        on_timer: Function of the name of a timer, the entity and the `Timers` of its key. It is
            called when a timer is due, and returns what the computation returns. If it is given,
            the computation receives the `Timers` as a third argument.
        event_time: Function from a message to its time: nanoseconds since the Unix epoch, or a
            datetime with a time zone. Without it, the time of arrival counts.

    Raises:
        TypeError: The *ttl* has another type.
        WallarooParameterError: The *ttl* is not positive, or *event_time* is of no use.

    Example:
        >>> @state_computation(name="count")
        ... def count(word, totals):
        ...     totals[word] = totals.get(word, 0) + 1
        ...     return (totals[word], True)
        >>> count("be", {"be": 1})
        (2, True)
    """
    timing = StateTiming.of(ttl, on_timer, event_time)
    kind = StateComputation if on_timer is None else TimedStateComputation
    return lambda function: kind(function, name, state, timing)


@overload
def state_computation_multi(
    name: str,
    state: type[State],
    *,
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[[Callable[[In, State], Results]], MultiStateComputation[In, State, Results]]: ...


@overload
def state_computation_multi(
    name: str,
    state: type[State],
    *,
    on_timer: Callable[[str, State, Timers], OnTimers],
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[
    [Callable[[In, State, Timers], Results]],
    TimedMultiStateComputation[In, State, Results, OnTimers],
]: ...


@overload
def state_computation_multi(
    name: str,
    state: None = None,
    *,
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[
    [Callable[[In, State], tuple[Results, Any]]],
    MultiStateComputation[In, State, tuple[Results, Any]],
]: ...


@overload
def state_computation_multi(
    name: str,
    state: None = None,
    *,
    on_timer: Callable[[str, State, Timers], tuple[OnTimers, Any]],
    ttl: AnyDuration | None = None,
    event_time: EventTime | None = None,
) -> Callable[
    [Callable[[In, State, Timers], tuple[Results, Any]]],
    TimedMultiStateComputation[In, State, tuple[Results, Any], tuple[OnTimers, Any]],
]: ...


def state_computation_multi(
    name: str,
    state: Any = None,
    *,
    ttl: AnyDuration | None = None,
    on_timer: Callable[..., Any] | None = None,
    event_time: EventTime | None = None,
) -> Any:
    """Declare a state computation whose output is an iterable of messages (or None).

    Arguments are those of `state_computation`.

    Example:
        >>> @state_computation_multi(name="echo twice")
        ... def twice(message, state):
        ...     return ([message, message], False)
        >>> twice("a", None)
        (['a', 'a'], False)
    """
    timing = StateTiming.of(ttl, on_timer, event_time)
    kind = MultiStateComputation if on_timer is None else TimedMultiStateComputation
    return lambda function: kind(function, name, state, timing)
