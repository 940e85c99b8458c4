"""Configuration of sources that are generators."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, overload

from wallaroo.api.connectors import AnySource
from wallaroo.api.keywords import keyword_aliases
from wallaroo.api.places import calling_place

Value = TypeVar("Value")
"""Type of a generator's values."""


class Generator(Protocol[Value]):
    """The type that `GenSourceConfig` expects: each value is computed from the previous one.

    After a restart only the last value is known: `apply` must not depend on other state of the
    generator, and values must be picklable.
    """

    def initial_value(self) -> Value | None:
        """Return the first message, or None for an empty source."""

    def apply(self, previous: Value, /) -> Value | None:
        """Return the message after *previous*, or None to end the source."""


class GenSourceConfig(AnySource[Value]):
    """A source that takes its messages from a generator, as fast as they are processed.

    Takes `(gen)`, or `(name, gen)` as the last Wallaroo versions do. The values themselves are the
    messages: there is no decoder.

    Args:
        name: Ignored: a source has the name of its pipeline.
        gen: An object with `initial_value()` and `apply(previous)`.

    Example:
        >>> class Numbers:
        ...     def initial_value(self):
        ...         return 1
        ...     def apply(self, previous):
        ...         return previous + 1 if previous < 1000 else None
        >>> GenSourceConfig("Numbers", Numbers()).name
        'Numbers'
    """

    connector = __package__

    @overload
    def __init__(self, gen: Generator[Value], /) -> None: ...

    @overload
    def __init__(self, name: str, gen: Generator[Value]) -> None: ...

    @overload
    def __init__(self, *, gen: Generator[Value]) -> None: ...

    @keyword_aliases(gen_instance="gen")
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        named = "name" in kwargs or len(args) + len(kwargs) > 1
        (self._take_named if named else self._take)(*args, **kwargs)
        self.place = calling_place()

    def _take(self, gen: Generator[Value]) -> None:
        self._take_named("", gen)

    def _take_named(self, name: str, gen: Generator[Value]) -> None:
        self.name = name
        self.gen = gen

    def to_tuple(self) -> tuple[str, Generator[Value]]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("gen", self.gen)
