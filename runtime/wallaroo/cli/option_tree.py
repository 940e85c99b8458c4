"""Options in a tree that mirrors the settings they fill.

An `Option` declares an option that fills one field, and `Options` declare those of a dataclass. The
default of an option is that of its field. The tree is read in both directions: a command fills its
settings from the command line, and `arguments` gives the command line that fills given settings.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING
from functools import reduce
from typing import Any, Generic, TypeVar

import click

Settings = TypeVar("Settings")
"""A frozen dataclass."""
Decorator = Callable[[Any], Any]
"""What adds an option to a command."""
Convert = Callable[[Any], Any]
"""A conversion between the value of an option and the value of a field."""


def together(*decorators: Decorator) -> Decorator:
    """A decorator that applies all *decorators*, so that their options have this order."""
    return lambda command: reduce(lambda made, add: add(made), reversed(decorators), command)


class Part(ABC):
    """A part of the tree. Calling it decorates a command with its options, in their order."""

    def __call__(self, command: Any) -> Any:
        """Give *command* the options."""
        return together(*self.decorators(None))(command)

    @abstractmethod
    def decorators(self, default: Any) -> Iterator[Decorator]:
        """What adds each option to a command.

        Args:
            default: Default of the field that this part fills; `MISSING` if it is required.
        """

    @abstractmethod
    def fill(self, values: Mapping[str, Any]) -> Any:
        """The value of the field, from the *values* of a command's parameters."""

    @abstractmethod
    def arguments(self, value: Any) -> list[str]:
        """The arguments for which `fill` gives *value*."""


def _same(value: Any) -> Any:
    return value


class Option(Part):
    """The declaration of an option, in click's terms except for the default.

    Args:
        names: The option's names, as click takes them.
        read: From the value of the option to the value of the field.
        write: The reverse of *read*.
        attributes: Other arguments of `click.option`.

    Example:
        >>> size = Option("--size-kib", read=lambda kib: kib * 1024, write=lambda b: b // 1024)
        >>> size.fill({"size_kib": 2})
        2048
        >>> size.arguments(2048)
        ['--size-kib=2']
    """

    def __init__(
        self, *names: str, read: Convert = _same, write: Convert = _same, **attributes: Any
    ) -> None:
        self._names, self._attributes = names, attributes
        self._read, self._write = read, write
        self._parameter = str(click.Option(list(names)).name)

    def but(self, **attributes: Any) -> Option:
        """The same option with other or additional *attributes* in one command."""
        changed = {**self._attributes, **attributes}
        return Option(*self._names, read=self._read, write=self._write, **changed)

    def decorators(self, default: Any) -> Iterator[Decorator]:
        """See `Part.decorators`."""
        attributes: dict[str, Any] = {}
        if default is MISSING:
            attributes["required"] = True
        elif default is not None:
            written = self._write(default)
            if written is not False and written != ():
                attributes = {"default": written, "show_default": True}
        yield click.option(*self._names, **{**attributes, **self._attributes})

    def fill(self, values: Mapping[str, Any]) -> Any:
        """See `Part.fill`."""
        value = values[self._parameter]
        return None if value is None else self._read(value)

    def arguments(self, value: Any) -> list[str]:
        """See `Part.arguments`."""
        if value is None:
            return []
        flag, written = self._names[0], self._write(value)
        if isinstance(written, bool):
            return [flag] if written else []
        texts = written if self._attributes.get("multiple") else [written]
        return [f"{flag}={text}" for text in texts]


class Options(Part, Generic[Settings]):
    """The options that fill a dataclass.

    Args:
        settings: The dataclass.
        make: Makes it of its fields, if fields depend on each other.
        parts: What fills its fields; the others have their defaults.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Limits:
        ...     senders: int = 10
        >>> limits = Options(Limits, senders=Option("--senders", type=int))
        >>> limits.fill({"senders": 20})
        Limits(senders=20)
        >>> limits.arguments(Limits(30))
        ['--senders=30']
    """

    def __init__(
        self,
        settings: type[Settings],
        make: Callable[..., Settings] | None = None,
        /,
        **parts: Part,
    ) -> None:
        self._fields = {f.name: f for f in dataclasses.fields(settings)}  # type: ignore[arg-type]
        assert parts.keys() <= self._fields.keys()
        self.settings = settings
        self._make = make or settings
        self._parts = parts

    def but(self, **parts: Part) -> Options[Settings]:
        """The same options with other or additional *parts* in one command."""
        return Options(self.settings, self._make, **{**self._parts, **parts})

    def decorators(self, default: Any) -> Iterator[Decorator]:
        """See `Part.decorators`."""
        for name, part in self._parts.items():
            known = default is not None and default is not MISSING
            yield from part.decorators(
                getattr(default, name) if known else _default(self._fields[name])
            )

    def fill(self, values: Mapping[str, Any], **others: Any) -> Settings:
        """See `Part.fill`; *others* are fields without an option."""
        filled = {name: part.fill(values) for name, part in self._parts.items()}
        return self._make(**filled, **others)

    def arguments(self, value: Settings) -> list[str]:
        """See `Part.arguments`."""
        # an application's own arguments end the line, and its options come first in the help
        parts = reversed(self._parts.items())
        return [text for name, part in parts for text in part.arguments(getattr(value, name))]


def _default(of: dataclasses.Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()
