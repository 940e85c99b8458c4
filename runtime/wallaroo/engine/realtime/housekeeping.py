"""Periodic work of a process of a real-time query, between two chunks."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

_COLLECTS_AFTER_S = 5.0
"""Seconds between two garbage collections."""


class Housekeeping:
    """Knows when periodic work is to be done."""

    def __init__(self) -> None:
        self._collected = time.monotonic()
        self._reported: Sequence[int] = ()

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
