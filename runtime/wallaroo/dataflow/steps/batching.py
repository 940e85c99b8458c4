"""Functions of a list of messages."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.api.retries import Retries
from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.dataflow.steps.gathering import Failed, Gathering
from wallaroo.dataflow.steps.retrying import retrying
from wallaroo.model.immutable import IMMUTABLE
from wallaroo.system.printable import counted
from wallaroo.user_code.callers import one_call, time_limited
from wallaroo.user_code.exceptions import short_repr


@dataclass  # not frozen: it takes the name of its function
class Batching(Gathering):
    """A function of a list of messages, which returns as many results.

    Example:
        >>> Batching(lambda texts: [text.upper() for text in texts], "shout", 2).run(["a", "b"])
        ['A', 'B']
        >>> def positive(numbers):
        ...     return [1 / number for number in numbers]
        >>> Batching(positive, "invert", 8).run([1, 0, 2])
        [1.0, Failed(error=ZeroDivisionError('division by zero')), 0.5]
    """

    function: Callable[[list[Any]], Any]
    name: str
    max: int
    wait_ns: int = 0
    retry: Retries | None = None
    pauses: bool = True
    """Whether it pauses before it tries again."""

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function, updated=())
        self._call = self._checked
        if self.retry is not None:
            retried: Any = retrying(self._checked, self.retry)
            if not self.pauses:
                retried.pause = lambda _seconds: None
            self._call = retried

    @property
    def most(self) -> int:  # noqa: D102
        return self.max

    @property
    def label(self) -> str:  # noqa: D102
        return f"batches of {self.max:,}"

    def run(self, messages: Sequence[Any]) -> list[Any]:  # noqa: D102
        results: list[Any] = []
        for first in range(0, len(messages), self.max):
            results += self._results(list(messages[first : first + self.max]), self._call)
        return results

    def without_pauses(self) -> Batching:  # noqa: D102
        return Batching(self.function, self.name, self.max, self.wait_ns, self.retry, pauses=False)

    @time_limited
    def _results(self, messages: list[Any], call: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """Return the results for a batch; if it fails, call again with halves of it."""
        saved = _saved(messages)
        try:
            return call(messages)
        except (Exception, SystemExit) as error:
            if len(messages) == 1:
                return [Failed(error)]
        messages = _restored(saved, messages)
        middle = len(messages) // 2
        results: list[Any] = []
        for part in (messages[:middle], messages[middle:]):
            # parts are not tried again before they are halved: all would pause for one message
            results += self._results(part, self._call if len(part) == 1 else self._checked)
        return results

    @has_role(Role.BATCH)
    @one_call
    def _checked(self, messages: list[Any]) -> list[Any]:
        """Return the results of the function.

        Raises:
            Exception: What it raises.
            TypeError: Its result is no iterable of results.
            ValueError: It has another number of results.
        """
        result = self.function(messages.copy())
        kind = type(result)
        if isinstance(result, (str, bytes, bytearray, memoryview, dict, set, frozenset)) or not (
            hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")
        ):
            msg = (
                f"computation_batch {self.name!r} returned the {kind.__name__} "
                f"{short_repr(result, 80)}; expected a list with a result for each message"
            )
            raise TypeError(msg)
        results = list(result)
        if len(results) != len(messages):
            msg = (
                f"computation_batch {self.name!r} returned {counted(len(results), 'result')} for "
                f"{counted(len(messages), 'message')}; return one for each, in order, or None in "
                "its place"
            )
            raise ValueError(msg)
        return results


@time_limited
def _saved(messages: list[Any]) -> bytes | None:
    """The *messages* of a batch as they are before a call that may change them, and fail.

    None if they cannot change, there is one alone, or they cannot be saved.
    """
    if len(messages) == 1 or IMMUTABLE.issuperset(map(type, messages)):
        return None
    try:
        return pickle.dumps(messages, protocol=5)
    except Exception:  # of a class of the application, which may raise anything
        return None


@time_limited
def _restored(saved: bytes | None, messages: list[Any]) -> list[Any]:
    """The *messages* as they were *saved*, if they were."""
    if saved is None:
        return messages
    try:
        restored: list[Any] = pickle.loads(saved)
    except Exception:
        return messages
    return restored
