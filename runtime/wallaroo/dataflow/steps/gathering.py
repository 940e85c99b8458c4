"""Functions of steps that are called for many messages at a time.

A `Gathering` can also be called with one message: the result is the same, so that simulations and
the search for messages that kill their worker need not know of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self


class Failed(NamedTuple):
    """In place of a result: what the function raised."""

    error: BaseException


class Gathering(ABC):
    """A function that is called for many messages at a time."""

    @property
    @abstractmethod
    def most(self) -> int:
        """Messages that it is given at most."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What diagrams say of it."""

    @abstractmethod
    def run(self, messages: Sequence[Any]) -> list[Any]:
        """Return the result for each of *messages*, in order, or `Failed`."""

    @abstractmethod
    def without_pauses(self) -> Self:
        """The same, trying again at once."""

    def __call__(self, message: Any) -> Any:
        """Return the result for *message* alone.

        Raises:
            BaseException: What the function raised.
        """
        (result,) = self.run([message])
        if type(result) is Failed:
            raise result.error
        return result
