"""Generators as message sources."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from wallaroo.api.configs import Generator
from wallaroo.api.connectors import MessageSource


class GeneratorSource(MessageSource[bytes]):
    """Reads a generator's values; a payload, and its position, is the pickled value.

    Args:
        generator: Makes the values.

    Example:
        >>> class Doubled:
        ...     def initial_value(self):
        ...         return 1
        ...     def apply(self, previous):
        ...         return 2 * previous if previous < 8 else None
        >>> [pickle.loads(payload) for payload, _ in GeneratorSource(Doubled()).read(None)]
        [1, 2, 4, 8]
    """

    def __init__(self, generator: Generator[Any]) -> None:
        self._generator = generator

    def read(self, position: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """See `MessageSource.read`."""
        generator = self._generator
        if position is None:
            value = generator.initial_value()
        else:
            value = generator.apply(pickle.loads(position))
        while value is not None:
            payload = pickle.dumps(value, protocol=5)
            yield payload, payload
            value = generator.apply(value)

    def __str__(self) -> str:
        return f"generator {type(self._generator).__name__}"
