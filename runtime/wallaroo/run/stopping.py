"""SIGINT and SIGTERM: they interrupt a run that starts, and stop one that is running.

A stop waits for other processes. If one of them does not respond, `StopDeadline` ends the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import structlog

_REPEAT_S = 0.5
"""Seconds after which a start that has swallowed `StartInterrupted` is interrupted again."""

_AFTER_ANOTHER_S = 20.0
"""Seconds after another signal until a stop that has not ended is given up."""
_END_S = 10.0
"""Seconds for a run to end by itself once its processes are killed."""
_CHECK_S = 0.2

log = structlog.get_logger("wallaroo")


class StartInterrupted(BaseException):
    """A stop signal arrived during the start.

    It derives from BaseException so that handlers of failures do not catch it, and not from
    KeyboardInterrupt, which py4j would log as an error.
    """


class StopSignals:
    """Handles the signals that stop a run, in the main thread."""

    def __init__(self) -> None:
        self.received = threading.Event()
        """Set by each signal."""
        self.times: list[float] = []
        """When signals arrived, by the clock that does not run backwards."""
        self._starting = False
        self._previous: dict[signal.Signals, Any] = {}
        """The handlers to restore."""

    def handle(self) -> None:
        """Install the handlers, also over handlers that other code has installed since."""
        for stop in (signal.SIGINT, signal.SIGTERM):
            self._install(stop, self._on_signal)

    def restore(self) -> None:
        """Restore the handlers from before `handle`."""
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous = {}

    @contextlib.contextmanager
    def during_start(self) -> Iterator[None]:
        """Handle signals from now on; inside the block, a signal raises `StartInterrupted`."""
        self._starting = True
        self.handle()
        self._install(signal.SIGALRM, self._interrupt)
        try:
            yield
        finally:
            self._starting = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _install(self, number: signal.Signals, handler: Callable[..., None]) -> None:
        previous = signal.signal(number, handler)
        self._previous.setdefault(number, signal.SIG_DFL if previous is None else previous)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.times.append(time.monotonic())
        self.received.set()
        with contextlib.suppress(RuntimeError):  # it interrupted the writing of another event
            log.info("signal", signal=signal.Signals(number).name)
        self._interrupt()

    def _interrupt(self, *_signal: object) -> None:
        if self._starting:
            # Python drops exceptions raised in its own callbacks, such as those of imports
            signal.setitimer(signal.ITIMER_REAL, _REPEAT_S)
            raise StartInterrupted


def kill_children() -> None:
    """Kill the processes that this one has started; theirs end with them."""
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in file.read_text().split():
                os.kill(int(pid), signal.SIGKILL)


class StopDeadline:
    """Ends a run that does not stop in time, because a process does not respond; a context manager.

    What is on disk is as after any kill: the next start resumes with it.

    Args:
        signals: The signals that stop the run.
        limit_s: Seconds after the first signal until the stop is given up; sooner after another.
        kill: Kills the processes of the run.
        leave: Ends this process with an exit code, at once.
    """

    def __init__(
        self,
        signals: StopSignals,
        limit_s: float,
        kill: Callable[[], None] = kill_children,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._signals = signals
        self._limit_s = limit_s
        self._kill = kill
        self._leave = leave
        self.has_given_up = False
        """Whether the run ends without the processes that it was to stop."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stop deadline", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_CHECK_S):
            if time.monotonic() > self._deadline():
                log.error(
                    "the stop is given up",
                    reason="a process of the run does not respond",
                    advice="start again with the same --state-dir to resume; nothing is lost",
                )
                self.has_given_up = True
                self._kill()
                if not self._over.wait(_END_S):
                    self._leave(1)
                return

    def _deadline(self) -> float:
        first, *more = self._signals.times or [float("inf")]
        deadline = first + self._limit_s
        return min(deadline, more[0] + _AFTER_ANOTHER_S) if more else deadline
