"""Calls of coroutine functions, many at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.api.retries import Retries
from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.dataflow.steps.event_loop import run_on_loop
from wallaroo.dataflow.steps.gathering import Failed, Gathering
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import Raised

_MANY = 8_192
"""Messages that a step collects at most, unless it makes more calls at a time: so many that calls
seldom wait for the slowest ones, and so few that they take little memory."""
_GRACE_S = 5.0
"""Seconds that a call may take to end once it is cancelled; then it is left to itself."""
_PENDING = object()


@dataclass  # not frozen: it takes the name of its function
class Awaiting(Gathering):
    """A coroutine function of a message, of which many calls are awaited at a time.

    Example:
        >>> async def shout(text):
        ...     return text.upper()
        >>> Awaiting(shout, concurrency=2, timeout_s=1.0).run(["a", "b", 3])
        ['A', 'B', Failed(error=AttributeError("'int' object has no attribute 'upper'"))]
    """

    function: Callable[[Any], Awaitable[Any]]
    concurrency: int
    timeout_s: float
    retry: Retries | None = None
    pauses: bool = True
    """Whether it pauses before it tries again."""

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function, updated=())

    @property
    def most(self) -> int:  # noqa: D102
        return max(_MANY, self.concurrency)

    @property
    def label(self) -> str:  # noqa: D102
        label = f"async, {self.concurrency:,} at a time"
        return label if self.retry is None else f"{label}, {self.retry.times} retries"

    @property
    def longest_s(self) -> float:
        """Seconds that a call may take to end, or to be made again."""
        pause_s = 0.0 if self.retry is None else self.retry.pause_s(self.retry.times - 1)
        return self.timeout_s + _GRACE_S + pause_s

    def run(self, messages: Sequence[Any]) -> list[Any]:  # noqa: D102
        return run_on_loop(_Calls(self, messages).results())

    def without_pauses(self) -> Awaiting:  # noqa: D102
        return dataclasses.replace(self, pauses=False)


class _Calls:
    """The calls for some messages.

    A task for each message would cost more than most calls. Instead as many tasks as there may be
    calls at a time take one message after the other. One timer watches them all: calls have the
    same time limit, so the one that began first reaches it first.
    """

    def __init__(self, awaiting: Awaiting, messages: Sequence[Any]) -> None:
        self._awaiting = awaiting
        self._results: list[Any] = [_PENDING] * len(messages)
        self._left = len(messages)
        self._next = iter(enumerate(messages))
        self._deadlines: dict[int, float] = {}
        """When running calls reach their limit, by number of the message, the first one first."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The task of each message that is under way."""
        self._expired: set[int] = set()
        """Messages whose calls have been cancelled because of their limit."""

    async def results(self) -> list[Any]:
        """Make the calls; returns their results."""
        if not self._left:
            return []
        self._loop = asyncio.get_running_loop()
        self._finished = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        workers = [self._begin() for _ in range(min(self._awaiting.concurrency, self._left))]
        try:
            await self._finished
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._left:  # the process is interrupted
                for worker in workers:
                    worker.cancel()
        return self._results

    def _begin(self) -> asyncio.Task[None]:
        return self._loop.create_task(self._work())

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        for number, message in self._next:
            self._tasks[number] = task
            result = await self._result(number, message, task)
            if self._tasks.pop(number, None) is None:
                return  # it was given up, and another task goes on in place of this one
            self._note(number, result)

    def _note(self, number: int, result: Any) -> None:
        self._results[number] = result
        self._left -= 1
        if not self._left and not self._finished.done():
            self._finished.set_result(None)

    async def _result(self, number: int, message: Any, task: asyncio.Task[None]) -> Any:
        """Call the function for a message, and again if that is due; returns its result."""
        retry, attempt = self._awaiting.retry, 0
        while True:
            result = await self._called(number, message, task)
            if type(result) is not Failed:
                return result
            if retry is None or not isinstance(result.error, retry.on):
                return result
            if attempt == retry.times:
                result.error.add_note(f"attempts: {attempt + 1}")
                return result
            if self._awaiting.pauses:
                await asyncio.sleep(retry.pause_s(attempt))
            attempt += 1

    @has_role(Role.AWAITED)
    @time_limited
    async def _called(self, number: int, message: Any, task: asyncio.Task[None]) -> Any:
        """Call the function once; what it does after its time limit does not count."""
        deadline = self._deadlines[number] = self._loop.time() + self._awaiting.timeout_s
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._end_overdue)
        try:
            result = await self._awaiting.function(message)
            if hasattr(type(result), "__await__"):
                result = Failed(_not_awaited(result))
        except (Exception, SystemExit) as error:
            result = Failed(error)
        except asyncio.CancelledError as cancelled:
            result = Failed(self._cause(number, cancelled))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if asyncio.current_task(self._loop) is not task:
                raise  # a GeneratorExit: the coroutine is closed, and runs no longer
            result = Failed(_as_raised(error))
        finally:
            self._deadlines.pop(number, None)
            if late := number in self._expired:
                self._expired.discard(number)
                task.uncancel()
        return Failed(self._timeout()) if late else result

    def _cause(self, number: int, cancelled: asyncio.CancelledError) -> BaseException:
        """What a call that ended with *cancelled* has failed of."""
        if number in self._expired:
            return cancelled  # its time limit, which is told instead
        if self._left and not self._finished.done():
            return _as_raised(cancelled)  # the function has raised it itself
        raise cancelled

    def _timeout(self) -> TimeoutError:
        return TimeoutError(
            f"the call took longer than its timeout, {self._awaiting.timeout_s:g} s"
        )

    def _end_overdue(self) -> None:
        """Cancel the calls that have reached their limit."""
        now = self._loop.time()
        while self._deadlines:
            number, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._end_overdue)
                return
            del self._deadlines[number]
            self._expired.add(number)
            task = self._tasks[number]
            task.cancel()
            self._loop.call_later(_GRACE_S, self._give_up, number, task)
        self._timer = None

    def _give_up(self, number: int, task: asyncio.Task[None]) -> None:
        """Go on without a call that has not ended although it was cancelled."""
        if number in self._expired and self._tasks.get(number) is task:
            del self._tasks[number]
            self._note(number, Failed(self._timeout()))
            self._begin()


def _not_awaited(result: Any) -> TypeError:
    if asyncio.iscoroutine(result):
        result.close()
    kind = type(result).__name__
    return TypeError(f"the function returned a {kind}, which nothing awaits; write return await …")


def _as_raised(error: BaseException) -> Raised:
    """Wrap *error*, which is no `Exception`, so that it affects its message only."""
    wrapped = Raised()
    wrapped.__cause__ = error
    return wrapped
