"""Periodic work of a process of a real-time query, between two chunks."""

from __future__ import annotations

import gc
import time

_COLLECTS_AFTER_S = 5.0
"""Seconds between two garbage collections."""
_REPORTS_AFTER_S = 1.0
"""Seconds between two reports of the size of the state."""


class Housekeeping:
    """Knows when periodic work is to be done."""

    def __init__(self) -> None:
        self._collected = time.monotonic()
        self._reported = 0.0

    def between_chunks(self) -> None:
        """Collect garbage if it is time; live objects are not examined again."""
        now = time.monotonic()
        if now - self._collected > _COLLECTS_AFTER_S:
            gc.collect()
            gc.freeze()
            self._collected = time.monotonic()

    def reports(self) -> bool:
        """Whether it is time to report the size of the state."""
        now = time.monotonic()
        if now - self._reported < _REPORTS_AFTER_S:
            return False
        self._reported = now
        return True
