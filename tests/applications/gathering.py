"""Windows that gather their messages in a list, for tests that add what becomes of it."""

from __future__ import annotations

from typing import TypeVar

import wallaroo

Message = TypeVar("Message")
Output = TypeVar("Output")


class Gathering(wallaroo.Aggregation[Message, list[Message], Output]):
    """A list of messages; a subclass says what a window yields."""

    def initial_accumulator(self) -> list[Message]:
        """An empty list."""
        return []

    def update(self, message: Message, accumulator: list[Message]) -> None:
        """Append *message*."""
        accumulator.append(message)

    def combine(self, one: list[Message], other: list[Message]) -> list[Message]:
        """Concatenate two lists."""
        return one + other
