"""Generators as message sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wallaroo.api.connectors import MessageSource
from wallaroo.connectors.generators.config import Generator
from wallaroo.model.application import Serialization


class GeneratorSource(MessageSource[bytes]):
    """Reads a generator's values; the serialized value is both payload and position.

    Args:
        generator: Generates the values.
        serialization: Converts values to bytes and back.

    Example:
        >>> class Doubled:
        ...     def initial_value(self):
        ...         return 1
        ...     def apply(self, previous):
        ...         return 2 * previous if previous < 8 else None
        >>> text = Serialization(lambda value: b"%d" % value, int)
        >>> list(GeneratorSource(Doubled(), text).read(None))
        [(b'1', b'1'), (b'2', b'2'), (b'4', b'4'), (b'8', b'8')]
        >>> list(GeneratorSource(Doubled(), text).read(b"4"))
        [(b'8', b'8')]
    """

    def __init__(self, generator: Generator[Any], serialization: Serialization) -> None:
        self._generator = generator
        self._serialization = serialization

    def read(self, position: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """See `MessageSource.read`."""
        generator = self._generator
        if position is None:
            value = generator.initial_value()
        else:
            value = generator.apply(self._serialization.deserialize(position))
        while value is not None:
            payload = self._serialization.serialize(value)
            yield payload, payload
            value = generator.apply(value)

    def __str__(self) -> str:
        return f"generator {type(self._generator).__name__}"
