"""Limits the time that a function of the application may take for one message.

A thread interrupts the main thread several times within the limit, by a signal whose handler checks
which call of user code is running. Counting calls would slow down each of them; this costs nothing
per call. If the same call is still running at the limit, an exception is raised in it. If code does
not return control to Python for much longer (an endless loop in C), the process is ended, and the
retried task finds the message (see `isolation`).

The signal is one that no library is known to use. SIGALRM and its timer belong to user code: the
usual decorators that limit the time of a function replace its handler.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from wallaroo.user_code.callers import call_at

CALL_LIMIT_S = 60.0
"""The limit, unless another one is set."""
_CHECKS = 4
"""Checks within the time limit."""
INTERRUPT = signal.SIGRTMAX - 3
"""The signal that interrupts the main thread."""
_EXIT_FACTOR = 3
"""Multiple of the limit after which a process that does not return to Python is ended."""
_EXIT_AT_LEAST_S = 5.0
"""It is not ended sooner than this: on a loaded machine, a process may stand still for a second."""


class CallTimedOut(SystemExit):
    """A function took too long; not an `Exception`, which applications often catch."""

    def __str__(self) -> str:
        return f"the call took longer than {self.args[0]:g} s"


class CallTimeout:
    """Interrupts functions of the application that take too long, from `start` to `stop`.

    Args:
        limit_s: Seconds that a function may take for one message; 0 to disable the limit.
        late: Called instead of raising `CallTimedOut` in a call: with the outermost frame of the
            call, and with the frame that is running.
    """

    def __init__(
        self, limit_s: float, late: Callable[[FrameType, FrameType], NoReturn] | None = None
    ) -> None:
        self._limit_s, self._late = limit_s, late
        self._call: FrameType | None = None
        self._since = 0.0
        self._previous_handler: Any = None
        self._thread: threading.Thread
        self._stopped: threading.Event
        self._started_in: int | None = None
        """The process in which it is checking; forks of that do not have its threads."""

    def start(self) -> None:
        """Start checking; has no effect outside the main thread, which signals interrupt."""
        main = threading.current_thread() is threading.main_thread()
        if self._limit_s and main and self._started_in is None:
            self._started_in = os.getpid()
            self._previous_handler = signal.signal(INTERRUPT, self._check)
            self._stopped = stopped = threading.Event()
            interrupted = threading.get_ident()

            def interrupt() -> None:
                while not stopped.wait(self._limit_s / _CHECKS):
                    signal.pthread_kill(interrupted, INTERRUPT)

            self._thread = threading.Thread(target=interrupt, name="call-timeout", daemon=True)
            self._thread.start()
            self._schedule_exit()

    def stop(self) -> None:
        """Stop checking."""
        if self._started_in == os.getpid():
            self._started_in = None
            self._stopped.set()
            self._thread.join()  # before the handler goes: without one, the signal ends the process
            signal.signal(INTERRUPT, self._previous_handler)
            faulthandler.cancel_dump_traceback_later()
            self._call = None

    def _check(self, _signal: int, frame: FrameType | None) -> None:
        now, call = time.monotonic(), call_at(frame)
        if frame is None or call is None or call is not self._call:
            self._call, self._since = call, now
        elif now - self._since >= self._limit_s:
            if self._late is not None:
                self._late(call, frame)
            raise CallTimedOut(self._limit_s)
        self._schedule_exit()

    def _schedule_exit(self) -> None:
        """End the process unless Python runs and calls this again in time."""
        file = sys.__stderr__
        if file is not None:
            exit_s = max(_EXIT_FACTOR * self._limit_s, _EXIT_AT_LEAST_S)
            faulthandler.dump_traceback_later(exit_s, exit=True, file=file)
