"""SIGINT and SIGTERM of a run: what starts is broken off, what runs stops in good order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import structlog

_AGAIN_S = 0.5
"""Seconds after which a start that has not been left is broken off again."""

log = structlog.get_logger("wallaroo")


class BrokenOff(BaseException):
    """A stop signal came during the start; no `Exception`, so that nothing takes it for a failure.

    No `KeyboardInterrupt` either: py4j logs that as an error of its own.
    """


class StopSignals:
    """Listens to the signals that stop a run, in the main thread."""

    def __init__(self) -> None:
        self.came = threading.Event()
        """Set with each signal."""
        self._starting = False
        self._before: dict[signal.Signals, Any] = {}
        """What became of signals before this listened to them."""

    def listen(self) -> None:
        """Take the signals, also from whoever has taken them meanwhile."""
        for stop in (signal.SIGINT, signal.SIGTERM):
            self._take(stop, self._on_signal)

    def leave(self) -> None:
        """Listen no more: each signal does again what it did before."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    @contextlib.contextmanager
    def during_start(self) -> Iterator[None]:
        """Listen from now on; inside the block, a signal raises `BrokenOff`, until that is left."""
        self._starting = True
        self.listen()
        self._take(signal.SIGALRM, self._break_off)
        try:
            yield
        finally:
            self._starting = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _take(self, number: signal.Signals, handler: Callable[..., None]) -> None:
        before = signal.signal(number, handler)
        self._before.setdefault(number, signal.SIG_DFL if before is None else before)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.came.set()
        with contextlib.suppress(RuntimeError):  # it came while a line was being written
            log.info("signal", signal=signal.Signals(number).name)
        self._break_off()

    def _break_off(self, *_signal: object) -> None:
        if self._starting:
            # what is raised in a callback of Python's own, as imports have, is lost
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            raise BrokenOff
