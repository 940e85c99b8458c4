"""The room that the next pod of the gateway needs while the gateway is being replaced.

By default, all pods have the same priority. If an executor waits for room when the gateway's pod
ends, the scheduler gives it that room, and the next pod of the gateway would wait without end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Protocol

import structlog

log = structlog.get_logger("wallaroo")


class Executors(Protocol):
    """See `wallaroo.engine.spark.executors`."""

    @property
    def wanted(self) -> int:
        """The requested number."""

    def running(self) -> list[str]:
        """Names of active executors."""

    def keep(self, names: Collection[str] | None) -> None:
        """Have no others than these; with None, as many as are wanted again."""


class GatewayRoom:
    """Lets no executor start while the gateway is away.

    Those that wait for room, or have just been given some, are withdrawn, and requested again when
    the gateway is back. Those that were active before stay.

    Args:
        is_there: Returns whether the gateway responds.
        executors: The executors.
    """

    EVERY_S = 1.0
    """Seconds between two looks."""

    def __init__(self, is_there: Callable[[], bool], executors: Executors) -> None:
        self._is_there, self._executors = is_there, executors
        self._active: frozenset[str] = frozenset()
        """Executors that were active when the gateway responded last."""
        self._is_kept = False

    def look(self) -> None:
        """Withdraw executors if the gateway is away, and request them again if it is back."""
        with contextlib.suppress(Exception):  # Spark has ended, which the engine reports
            self._look()

    def _look(self) -> None:
        executors = self._executors
        if self._is_there():
            self._active = frozenset(executors.running())
            if self._is_kept:
                self._is_kept = False
                executors.keep(None)
        else:
            if not self._is_kept and len(self._active) < executors.wanted:
                log.info(
                    "executors are withdrawn",
                    wanted=executors.wanted,
                    running=len(self._active),
                    reason="the gateway is away, and its next pod needs the room first",
                )
            self._is_kept = True
            executors.keep(self._active)
