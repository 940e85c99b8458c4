"""Counts the calls of an application in a copy of its process, and skips some."""

from __future__ import annotations

import functools
import mmap
import os
import struct
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from wallaroo.dataflow.isolated_awaiting import IsolatedAwaiting
from wallaroo.dataflow.process_health import Health
from wallaroo.dataflow.savable import SkippedCall
from wallaroo.dataflow.steps.awaiting import Awaiting
from wallaroo.dataflow.steps.gathering import Gathering
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import raising_exceptions

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

    def take(self, calls: int) -> int:  # noqa: D102 - see Counter
        first = self.number + 1
        self.number += calls
        return first

    def skipped(self, number: int) -> SkippedCall | None:  # noqa: D102 - see Counter
        return self._skipped.get(number)

    def enter(self, number: int) -> None:  # noqa: D102 - see Counter
        self._process = _getpid()
        if self._shared is not None:
            NUMBER.pack_into(self._shared, 0, number)

    def leave(self, number: int) -> None:  # noqa: D102 - see Counter
        self._end_if_forked_or_damaged(self._process, number)
        if not self.one_by_one:
            self.wait()

    def wait(self) -> None:  # noqa: D102 - see Counter
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
