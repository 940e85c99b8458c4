"""Decorators that turn a plain function into a part of a pipeline.

A decorated function can still be called directly, so it can be unit-tested without the runtime. A
computation that returns `None` emits nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, Generic, ParamSpec, TypeAlias, TypeVar

from wallaroo.api.places import Place
from wallaroo.api.retries import Retries

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
Key = TypeVar("Key", bound=Hashable)
"""Type of a key."""


class OutputRecord:
    """An output with more than bytes, as one of a connector's own encoders returns it."""

    __slots__ = ()


AnyEncoded: TypeAlias = (
    bytes | bytearray | memoryview | str | OutputRecord | tuple[Any, ...] | Mapping[str, Any] | None
)
"""Result of an encoder: text is sent as UTF-8, None sends nothing; for Kafka, also a record, or a
tuple of a value, a key and a partition; for tables, the values of a row by column."""
Encoded = TypeVar("Encoded", bound=AnyEncoded)
"""The same, as the type that one encoder returns."""

LengthFormat = str | Callable[[bytes], int]
"""How the header encodes the payload's length: a `struct` format, or a function of the header."""


class Decorated(Generic[P, Result_co]):
    """Base class of all decorated functions: holds the function and calls it.

    Do not subclass it in an application; use the decorators.
    """

    place: Place | None = None
    """Where it was made, if its function is not the application's."""

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
        repeatable: Whether a payload may be decoded again instead of sending the message.
    """

    def __init__(
        self,
        function: Callable[[bytes], Result_co],
        header_length: int,
        length_fmt: LengthFormat,
        *,
        repeatable: bool = False,
    ) -> None:
        super().__init__(function)
        self.header_length = header_length
        self.length_fmt = length_fmt
        self.repeatable = repeatable


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


class KeyExtractor(Decorated[[In_contra], Result_co], Generic[In_contra, Result_co]):
    """A function from a message to the key of its state entity."""


class Encoder(Decorated[[In_contra], Result_co], Generic[In_contra, Result_co]):
    """A function from an output to the bytes (or text) to send to a sink."""


def decoder(
    header_length: int, length_fmt: LengthFormat, *, repeatable: bool = False
) -> Callable[[Callable[[bytes], Result]], Decoder[Result]]:
    """Declare a decoder for frames that consist of a header and a payload.

    Args:
        header_length: Length of the header before each payload, in bytes.
        length_fmt: `struct` format of the header; its value is the payload's length in bytes. If
            the header is not a plain integer: a function from the header to that length, which is
            slower. It must return the same length for the same header in every process.
        repeatable: A promise that lets the runtime work faster. If no step comes between the
            decoder and a state computation, the payload is sent to the process of its key and
            decoded again there, which usually costs less than sending the message. You promise
            that the decoder returns an equal message for the same bytes, at any time and in any
            process; that it has no effects, such as counting its calls; that its messages share
            no object that can change; and that key extractors do not change its messages.
            `wallaroo check` and `wallaroo.testing.simulate` compare two messages of one payload.

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
    return lambda function: Decoder(function, header_length, length_fmt, repeatable=repeatable)


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


def key_extractor(function: Callable[[In], Key]) -> KeyExtractor[In, Key]:
    """Declare a key extractor, from message to key: a str, a number, a tuple and many other types.

    Messages with equal keys share one state entity. If the returned value is not a valid key, the
    message is dead-lettered; see "Keys" in the documentation.

    Example:
        >>> @key_extractor
        ... def first_letter(word):
        ...     return word[0]
        >>> first_letter("acorn")
        'a'
    """
    return KeyExtractor(function)


def partition(function: Callable[[In], Key]) -> KeyExtractor[In, Key]:
    """Declare a key extractor: the second generation's name for `key_extractor`.

    Example:
        >>> @partition
        ... def first_letter(word):
        ...     return word[0]
    """
    return key_extractor(function)


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
