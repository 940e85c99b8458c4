"""Decorators that turn a plain function into a part of a pipeline.

A decorated function can still be called directly, so it can be unit-tested without the runtime. A
computation that returns `None` emits nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, overload

from wallaroo.api.retries import Retries
from wallaroo.api.timers import Duration, Timers, duration_ns
from wallaroo.errors import WallarooParameterError
from wallaroo.wire.kafka_records import KafkaRecord

P = ParamSpec("P")
"""Parameters of the decorated function."""
In = TypeVar("In")
"""Type of an incoming message."""
In_contra = TypeVar("In_contra", contravariant=True)
"""The same, contravariant: a function that accepts a type accepts its subtypes, too."""
State = TypeVar("State")
"""Type of a state entity."""
Result = TypeVar("Result")
"""Result of the decorated function."""
Result_co = TypeVar("Result_co", covariant=True)
"""The same, covariant: an instance of a type is an instance of its supertypes, too."""
Results = TypeVar("Results", bound=Iterable[Any] | None)
"""Result of a function that returns any number of messages."""
OnTimer = TypeVar("OnTimer")
"""Result of the function that timers call."""
OnTimers = TypeVar("OnTimers", bound=Iterable[Any] | None)
"""Result of such a function that returns any number of messages."""
Key = TypeVar("Key", bound=Hashable)
"""Type of a key."""
Encoded = TypeVar(
    "Encoded", bound=bytes | bytearray | memoryview | str | KafkaRecord | tuple[Any, ...] | None
)
"""Result of an encoder: text is sent as UTF-8, None sends nothing; for Kafka, also a record, or a
tuple of a value, a key and a partition."""

LengthFormat = str | Callable[[bytes], int]
"""How the header encodes the payload's length: a `struct` format, or a function of the header."""


class Decorated(Generic[P, Result_co]):
    """Base class of all decorated functions: holds the function and calls it.

    Do not subclass it in an application; use the decorators.
    """

    # Subclasses repeat their type parameters in a separate Generic: Python 3.11.2 (Debian 12) does
    # not find those inside the list that is substituted for P.

    def __init__(self, function: Callable[P, Result_co]) -> None:
        self.function = function
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result_co:
        """Call the undecorated function."""
        return self.function(*args, **kwargs)


class Decoder(Decorated[[bytes], Result_co]):
    """A function from a payload to a message, with the layout of frames.

    Attributes:
        header_length: Length of the header before each payload, in bytes.
        length_fmt: `struct` format of the header, whose value is the payload's length in bytes, or
            a function from the header to that length.
    """

    def __init__(
        self, function: Callable[[bytes], Result_co], header_length: int, length_fmt: LengthFormat
    ) -> None:
        super().__init__(function)
        self.header_length = header_length
        self.length_fmt = length_fmt


class AnyComputation(Decorated[[In_contra], Result_co], Generic[In_contra, Result_co]):
    """A stateless function of a message.

    Attributes:
        multi: Whether the function returns an iterable of messages.
        name: Name of the step in logs, metrics and errors.
        retry: When to try again; None for never.
    """

    multi: ClassVar[bool]

    def __init__(
        self, function: Callable[[In_contra], Result_co], name: str, retry: Retries | None = None
    ) -> None:
        super().__init__(function)
        self.name = name
        self.retry = retry


class Computation(AnyComputation[In_contra, Result_co]):
    """A stateless function from one message to at most one message."""

    multi = False


class MultiComputation(AnyComputation[In_contra, Result_co]):
    """A stateless function from one message to any number of messages."""

    multi = True


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
    event_time: Callable[[Any], int] | None = None
    """From a message to its time; None for its time of arrival."""

    @classmethod
    def of(
        cls,
        ttl: Duration | None,
        on_timer: Callable[[str, Any, Timers], Any] | None,
        event_time: Callable[[Any], int] | None,
    ) -> StateTiming:
        """Check the arguments of a decorator.

        Raises:
            TypeError: The time to live has another type.
            WallarooParameterError: It is not positive, or the event time is of no use.
        """
        ttl_ns = None if ttl is None else duration_ns("ttl", ttl)
        if ttl_ns is not None and ttl_ns <= 0:
            msg = f"the ttl is {ttl_ns} ns; it must be positive"
            raise WallarooParameterError(msg)
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


class TimedStateComputation(StateComputation[In_contra, State, Result_co]):
    """A state computation with timers, which its function receives as a third argument."""

    def __call__(  # type: ignore[override]
        self, message: In_contra, state: State, timers: Timers
    ) -> Result_co:
        """Call the undecorated function."""
        return self.function(message, state, timers)  # type: ignore[call-arg]


class TimedMultiStateComputation(MultiStateComputation[In_contra, State, Result_co]):
    """The same, for any number of messages."""

    def __call__(  # type: ignore[override]
        self, message: In_contra, state: State, timers: Timers
    ) -> Result_co:
        """Call the undecorated function."""
        return self.function(message, state, timers)  # type: ignore[call-arg]


class KeyExtractor(Decorated[[In_contra], Result_co], Generic[In_contra, Result_co]):
    """A function from a message to the key of its state entity."""


class Encoder(Decorated[[In_contra], Result_co], Generic[In_contra, Result_co]):
    """A function from an output to the bytes (or text) to send to a sink."""


def decoder(
    header_length: int, length_fmt: LengthFormat
) -> Callable[[Callable[[bytes], Result]], Decoder[Result]]:
    """Declare a decoder for frames that consist of a header and a payload.

    Args:
        header_length: Length of the header before each payload, in bytes.
        length_fmt: `struct` format of the header; its value is the payload's length in bytes. If
            the header is not a plain integer: a function from the header to that length, which is
            slower. It must return the same length for the same header in every process.

    Returns:
        A decorator. If the decoder returns None, the message is dropped; if it raises, the message
        is dead-lettered.

    Example:
        >>> @decoder(header_length=4, length_fmt=">I")
        ... def decode(bs):
        ...     return bs.decode("utf-8")
        >>> decode(b"hello")
        'hello'
    """
    return lambda function: Decoder(function, header_length, length_fmt)


def computation(
    name: str, *, retry: Retries | None = None
) -> Callable[[Callable[[In], Result]], Computation[In, Result]]:
    """Declare a stateless computation: one message in, one message or None out.

    Args:
        name: Name of the step.
        retry: When to try again after an exception, from `retries`; None for never.

    Example:
        >>> @computation(name="lower")
        ... def lower(text):
        ...     return text.lower()
        >>> lower("ABC")
        'abc'
    """
    return lambda function: Computation(function, name, retry)


def computation_multi(
    name: str, *, retry: Retries | None = None
) -> Callable[[Callable[[In], Results]], MultiComputation[In, Results]]:
    """Declare a stateless computation that returns any number of messages; None items are dropped.

    Args:
        name: Name of the step.
        retry: When to try again after an exception, from `retries`; None for never.

    Example:
        >>> @computation_multi(name="split")
        ... def split(text):
        ...     return text.split()
        >>> split("to be")
        ['to', 'be']
    """
    return lambda function: MultiComputation(function, name, retry)


@overload
def state_computation(
    name: str,
    state: type[State],
    *,
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[[Callable[[In, State], Result]], StateComputation[In, State, Result]]: ...


@overload
def state_computation(
    name: str,
    state: type[State],
    *,
    on_timer: Callable[[str, State, Timers], OnTimer],
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[
    [Callable[[In, State, Timers], Result]],
    TimedStateComputation[In, State, Result | OnTimer],
]: ...


@overload
def state_computation(
    name: str,
    state: None = None,
    *,
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[
    [Callable[[In, State], tuple[Result, Any]]], StateComputation[In, State, tuple[Result, Any]]
]: ...


@overload
def state_computation(
    name: str,
    state: None = None,
    *,
    on_timer: Callable[[str, State, Timers], tuple[OnTimer, Any]],
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[
    [Callable[[In, State, Timers], tuple[Result, Any]]],
    TimedStateComputation[In, State, tuple[Result | OnTimer, Any]],
]: ...


def state_computation(
    name: str,
    state: Any = None,
    *,
    ttl: Duration | None = None,
    on_timer: Callable[..., Any] | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Any:
    """Declare a computation over a message and the state entity of its key.

    Args:
        name: Name of the step.
        state: Class of the entity, created without arguments for each new key. If it is given, the
            function returns only its output. Otherwise the builder call specifies the class, and
            the function returns a pair `(output, save)`, where *save* False promises that the
            entity was not changed, so that it need not be written.
        ttl: Time for which an idle entity is kept, in nanoseconds or as a timedelta. An entity is
            idle from its last message or call of a timer, unless a timer is set. None keeps it.
        on_timer: Function of the name of a timer, the entity and the `Timers` of its key. It is
            called when a timer is due, and returns what the computation returns. If it is given,
            the computation receives the `Timers` as a third argument.
        event_time: Function from a message to its time, an int: nanoseconds since the Unix epoch.
            Without it, the time of arrival counts.

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
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[[Callable[[In, State], Results]], MultiStateComputation[In, State, Results]]: ...


@overload
def state_computation_multi(
    name: str,
    state: type[State],
    *,
    on_timer: Callable[[str, State, Timers], OnTimers],
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[
    [Callable[[In, State, Timers], Results]],
    TimedMultiStateComputation[In, State, Results | OnTimers],
]: ...


@overload
def state_computation_multi(
    name: str,
    state: None = None,
    *,
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
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
    ttl: Duration | None = None,
    event_time: Callable[[Any], int] | None = None,
) -> Callable[
    [Callable[[In, State, Timers], tuple[Results, Any]]],
    TimedMultiStateComputation[In, State, tuple[Results | OnTimers, Any]],
]: ...


def state_computation_multi(
    name: str,
    state: Any = None,
    *,
    ttl: Duration | None = None,
    on_timer: Callable[..., Any] | None = None,
    event_time: Callable[[Any], int] | None = None,
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


def partition(function: Callable[[In], Key]) -> KeyExtractor[In, Key]:
    """Declare a key extractor, from message to key: a str, a number, a tuple and many other types.

    Messages with equal keys share one state entity. If the returned value is not a valid key, the
    message is dead-lettered; see "Keys" in the documentation.

    Example:
        >>> @partition
        ... def first_letter(word):
        ...     return word[0]
        >>> first_letter("acorn")
        'a'
    """
    return KeyExtractor(function)


key_extractor = partition
"""The third generation's name for `partition`."""


def encoder(function: Callable[[In], Encoded]) -> Encoder[In, Encoded]:
    r"""Declare an encoder, from output to bytes, or to text, which is sent as UTF-8.

    An encoder that returns None sends nothing.

    Example:
        >>> @encoder
        ... def encode(count):
        ...     return f"{count}\n"
        >>> encode(3)
        '3\n'
    """
    return Encoder(function)
