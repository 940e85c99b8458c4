"""Counts the calls of an application in a copy of its process, and skips some.

Many calls of an async step wait at the same time, but only one runs: the call whose code runs is
recorded. A task that a call starts in the background runs unrecorded. If the process ends during
one, the next copy makes calls one at a time, and each counts as running until it has ended.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import mmap
import os
import struct
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any

from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.dataflow.process_health import Health
from wallaroo.dataflow.savable import SkippedCall
from wallaroo.dataflow.steps.awaiting import Awaiting
from wallaroo.dataflow.steps.gathering import Failed, Gathering
from wallaroo.model.application import Application, Compute
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import Raised, raising_exceptions

NUMBERS = struct.Struct("=QQQQQ")
"""The running call; whether the copy has finished; a call that returned in a nested fork; how the
copy is damaged, an index of `PROBLEMS`; the call after which it is, 0 if that is not known."""
NUMBER = struct.Struct("=Q")
SAVING = 2**64 - 1
"""Instead of the number of a call: the entities are being saved."""
AWAITING = 2**63
"""The least number that says that calls of async steps are awaited, and none of them runs; another
one each time."""
FINISHED, FORKED, DAMAGE = NUMBER.size, 2 * NUMBER.size, 3 * NUMBER.size
"""Places in `NUMBERS`."""
_MIB = 1024**2
_exit, _getpid = os._exit, os.getpid  # user code may replace them


def is_awaiting(number: int) -> bool:
    """Whether *number* says that calls of async steps are awaited."""
    return AWAITING <= number < SAVING


def is_no_call(number: int) -> bool:
    """Whether *number* is not that of a call."""
    return number == 0 or number >= AWAITING


@time_limited
class Calls:
    """Counts calls of functions of an application, and skips some.

    Args:
        skipped: The calls to skip, by number, with the exception to raise instead.
        limit_bytes: Memory that calls may take; None for no limit.
        shared: Shared memory for the number of the running call.
        watches: Whether to end the process after a call that has damaged it.
        one_by_one: Whether calls of async steps are made one at a time.
    """

    def __init__(
        self,
        skipped: Mapping[int, SkippedCall],
        limit_bytes: int | None = None,
        shared: mmap.mmap | None = None,
        *,
        watches: bool = False,
        one_by_one: bool = False,
    ) -> None:
        self.number = 0
        """Number of the last call."""
        self._skipped = skipped
        self._limit_bytes = limit_bytes
        self._shared = shared
        self._watches = watches
        self.one_by_one = one_by_one
        self._waits = 0
        self.health: Health | None = None
        """How to find out whether this process is damaged; None if it is no copy."""

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap *function*."""
        call = raising_exceptions(function, interruptible=False)

        def guarded(*arguments: Any) -> Any:
            self.number += 1
            if self._shared is not None:
                NUMBER.pack_into(self._shared, 0, self.number)
            if (error := self._skipped.get(self.number)) is not None:
                raise error
            process, number = _getpid(), self.number
            try:
                return call(*arguments)
            except MemoryError as shortage:
                self.end_shortage(shortage)
                raise
            finally:
                self._end_if_forked_or_damaged(process, number)

        functools.update_wrapper(guarded, function, updated=())
        return guarded

    def guard_gathering(self, function: Gathering) -> Callable[[Any], Any]:
        """Wrap *function*; batches are called with one message."""
        if isinstance(function, Awaiting):
            return IsolatedAwaiting(function, self)
        return self.guard(function)

    def take(self, calls: int) -> int:
        """Count so many *calls*, and return the number of the first."""
        first = self.number + 1
        self.number += calls
        return first

    def skipped(self, number: int) -> SkippedCall | None:
        """What the call *number* raises instead of being made; None if it is made."""
        return self._skipped.get(number)

    def enter(self, number: int) -> None:
        """Note that the code of the call *number* begins to run."""
        self._process = _getpid()
        if self._shared is not None:
            NUMBER.pack_into(self._shared, 0, number)

    def leave(self, number: int) -> None:
        """Note that it has stopped for the time being."""
        self._end_if_forked_or_damaged(self._process, number)
        if not self.one_by_one:
            self.wait()

    def wait(self) -> None:
        """Note that no call runs, but some are awaited."""
        self._waits += 1
        if self._shared is not None:
            NUMBER.pack_into(self._shared, 0, AWAITING + self._waits)

    def _end_if_forked_or_damaged(self, process: int, number: int) -> None:
        """End a process that the call *number*, made in *process*, has forked or damaged."""
        if _getpid() != process:
            if self._shared is not None:
                NUMBER.pack_into(self._shared, FORKED, number)
            _exit(1)
        if self._watches and self.health is not None:
            self._end_if_damaged(number)

    def end_shortage(self, error: MemoryError) -> None:
        """Free what a call that ran out of memory had allocated, and say how much it was."""
        traceback.clear_frames(error.__traceback__)
        if self._limit_bytes is not None and not error.args:
            error.args = (f"the call takes more than the {self._limit_bytes // _MIB:,} MiB it may",)

    def _end_if_damaged(self, number: int) -> None:
        assert self.health is not None
        assert self._shared is not None
        if problem := self.health.problem():
            NUMBERS.pack_into(self._shared, 0, number, 0, 0, problem, number)
            _exit(1)


class IsolatedAwaiting(Gathering):
    """An async step whose calls are counted.

    Args:
        awaiting: The step's function.
        counter: Counts calls.
    """

    def __init__(self, awaiting: Awaiting, counter: Calls) -> None:
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

    @has_role(Role.ISOLATED)
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
    """Return the longest time that can pass without progress in any awaited call, in seconds."""
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
    function: Callable[[Any], Awaitable[Any]], counter: Calls
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
        counter: Calls,
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
