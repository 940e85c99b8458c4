"""Counts the calls of async steps while a message is searched for that kills its process.

Many calls wait at a time, but only one runs: what is noted is the call whose code runs. What it
leaves to a task of its own runs unnoticed. If the process ends then, calls are made one at a time
in the next copy, and count as running until they have ended.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Protocol

from wallaroo.dataflow.savable import SkippedCall
from wallaroo.dataflow.steps.awaiting import Awaiting
from wallaroo.dataflow.steps.gathering import Failed, Gathering
from wallaroo.model.application import Application, Compute
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import Raised


class Counter(Protocol):
    """Counts calls, and notes which one runs."""

    one_by_one: bool
    """Whether calls are made one at a time."""

    def take(self, calls: int) -> int:
        """Count so many *calls*, and return the number of the first."""

    def skipped(self, number: int) -> SkippedCall | None:
        """What the call *number* raises instead of being made; None if it is made."""

    def enter(self, number: int) -> None:
        """Note that the code of the call *number* begins to run."""

    def leave(self, number: int) -> None:
        """Note that it has stopped for the time being."""

    def wait(self) -> None:
        """Note that no call runs, but some are awaited."""

    def end_shortage(self, error: MemoryError) -> None:
        """Free what a call that ran out of memory had allocated, and say how much it was."""


class IsolatedAwaiting(Gathering):
    """An async step whose calls are counted.

    Args:
        awaiting: The step's function.
        counter: Counts calls.
    """

    def __init__(self, awaiting: Awaiting, counter: Counter) -> None:
        self._counter = counter
        one_by_one = counter.one_by_one
        self._awaiting = dataclasses.replace(
            awaiting,
            function=_counting(awaiting.function, counter),
            concurrency=1 if one_by_one else awaiting.concurrency,
        )
        self._most = awaiting.most
        self.__wrapped__ = awaiting.function

    @property
    def most(self) -> int:  # noqa: D102 - the same as without counting: calls keep their numbers
        return self._most

    @property
    def label(self) -> str:  # noqa: D102
        return self._awaiting.label

    def without_pauses(self) -> IsolatedAwaiting:  # noqa: D102
        return IsolatedAwaiting(self._awaiting.without_pauses(), self._counter)

    def run(self, messages: Sequence[Any]) -> list[Any]:  # noqa: D102
        counter = self._counter
        first = counter.take(len(messages))
        skips = [counter.skipped(first + index) for index in range(len(messages))]
        calls = [
            (first + index, message)
            for index, message in enumerate(messages)
            if skips[index] is None
        ]
        counter.wait()
        made = iter(self._awaiting.run(calls))
        return [next(made) if skip is None else Failed(skip) for skip in skips]


def longest_await_s(application: Application) -> float:
    """Return the seconds in which at least one call of those that are awaited goes on or ends."""
    return max(
        (
            step.function.longest_s
            for pipeline in application.pipelines
            for step in pipeline.trunk.walk()
            if isinstance(step, Compute) and isinstance(step.function, Awaiting)
        ),
        default=0.0,
    )


def _counting(
    function: Callable[[Any], Awaitable[Any]], counter: Counter
) -> Callable[[Any], Awaitable[Any]]:
    """Wrap *function* to take the number of the call with its message."""

    def call(numbered: tuple[int, Any]) -> Awaitable[Any]:
        number, message = numbered
        return _Counted(function, message, number, counter)

    return call


@time_limited
class _Counted:
    """A call, of which it is noted when its code runs."""

    def __init__(
        self,
        function: Callable[[Any], Awaitable[Any]],
        message: Any,
        number: int,
        counter: Counter,
    ) -> None:
        self._function = function
        self._message = message
        self._number = number
        self._counter = counter

    def __await__(self) -> Generator[Any, Any, Any]:
        number, counter, running = self._number, self._counter, self._run()
        thrown: BaseException | None = None
        while True:
            counter.enter(number)
            try:
                awaited = running.send(None) if thrown is None else running.throw(thrown)
            except StopIteration as end:
                return end.value
            except (Exception, SystemExit, asyncio.CancelledError):
                raise
            except BaseException as error:
                raise Raised from error
            finally:
                counter.leave(number)
            try:
                thrown = None
                yield awaited
            except BaseException as error:
                thrown = error

    async def _run(self) -> Any:
        try:
            return await self._function(self._message)
        except MemoryError as shortage:
            self._counter.end_shortage(shortage)
            raise
