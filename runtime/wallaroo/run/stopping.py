"""SIGINT and SIGTERM: they interrupt a run that starts, and stop one that is running."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import structlog

_REPEAT_S = 0.5
"""Seconds after which a start that has swallowed `StartInterrupted` is interrupted again."""

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
        self.received.set()
        with contextlib.suppress(RuntimeError):  # it interrupted the writing of another event
            log.info("signal", signal=signal.Signals(number).name)
        self._interrupt()

    def _interrupt(self, *_signal: object) -> None:
        if self._starting:
            # Python drops exceptions raised in its own callbacks, such as those of imports
            signal.setitimer(signal.ITIMER_REAL, _REPEAT_S)
            raise StartInterrupted
