"""A limit on the time that a function of the application may take for one message.

A timer interrupts the process a few times in that time, and looks which call of the application's
code is under way: counting calls would cost each of them something, this costs none. The call that
is still the same when its time is over gets an exception. Code that does not let Python run for a
long time (an endless loop in C) ends its process in the end: the task that is tried again finds
out on which message (see `isolation`).
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from wallaroo.model.callers import call_at

_LOOKS = 4
"""Looks in the time that a call may take."""
_LONGEST = 3
"""Times the limit after which a process is ended that does not let Python run."""


class OutOfTime(SystemExit):
    """A function took too long; no `Exception`, which an application may well catch all of."""

    def __str__(self) -> str:
        return f"it took longer than {self.args[0]:g} s"


class CallTimeout:
    """Interrupts functions of the application that take too long, from `start` to `stop`.

    Args:
        limit_s: Seconds that a function may take for one message; 0 for as long as it likes.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._under_way: FrameType | None = None
        self._since = 0.0
        self._before: Any = None
        self._started = False

    def start(self) -> None:
        """Begin to look; does nothing outside the main thread, which signals interrupt."""
        main = threading.current_thread() is threading.main_thread()
        if self._limit_s and main and not self._started:
            self._started = True
            self._before = signal.signal(signal.SIGALRM, self._look)
            period = self._limit_s / _LOOKS
            signal.setitimer(signal.ITIMER_REAL, period, period)
            self._end_later()

    def stop(self) -> None:
        """Look no more."""
        if self._started:
            self._started = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before)
            faulthandler.cancel_dump_traceback_later()
            self._under_way = None

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        now, called = time.monotonic(), call_at(frame)
        if called is None or called is not self._under_way:
            self._under_way, self._since = called, now
        elif now - self._since >= self._limit_s:
            raise OutOfTime(self._limit_s)
        self._end_later()

    def _end_later(self) -> None:
        """End the process if Python does not run for long."""
        file = sys.__stderr__
        if file is not None:
            faulthandler.dump_traceback_later(_LONGEST * self._limit_s, exit=True, file=file)
