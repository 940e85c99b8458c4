"""Periodic work of a process of a real-time query, between two chunks."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Sequence

from wallaroo.system.processor_time import container_seconds
from wallaroo.wire.task_metrics import TaskMetrics

_COLLECTS_AFTER_S = 5.0
"""Seconds between two garbage collections."""
_REPORTS_AFTER_S = 2.0
"""Seconds between two reports of processor time."""


class Housekeeping:
    """Knows when periodic work is to be done."""

    def __init__(self) -> None:
        self._collected = time.monotonic()
        self._reported: Sequence[int] = ()
        self._time_reported = 0.0

    def between_chunks(self) -> None:
        """Collect garbage if it is time; live objects are not examined again."""
        now = time.monotonic()
        if now - self._collected > _COLLECTS_AFTER_S:
            gc.collect()
            gc.freeze()
            self._collected = time.monotonic()

    def reports(self, size: Sequence[int]) -> bool:
        """Whether the *size* of the state is to be reported, because it has changed."""
        changed, self._reported = size != self._reported, size
        return changed

    def report_time(self, role: int, metrics: TaskMetrics) -> None:
        """Add the processor time of the process *role*, and of its executor, if it is time."""
        now = time.monotonic()
        if now - self._time_reported < _REPORTS_AFTER_S:
            return
        self._time_reported = now
        if (seconds := container_seconds()) is not None:
            metrics.processors[socket.gethostname(), role] = (seconds, time.process_time())
