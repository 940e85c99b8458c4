"""What a process of a real-time query does now and then, between two chunks."""

from __future__ import annotations

import gc
import time

_COLLECTS_AFTER_S = 5.0
"""Time between two looks for cycles among the objects that chunks have left."""
_TELLS_AFTER_S = 1.0
"""Time between two reports of what the state holds."""


class Housekeeping:
    """Keeps the time of what is done now and then."""

    def __init__(self) -> None:
        self._collected = time.monotonic()
        self._told = 0.0

    def between_chunks(self) -> None:
        """Look for garbage, if it is time; what is alive is not looked at again."""
        now = time.monotonic()
        if now - self._collected > _COLLECTS_AFTER_S:
            gc.collect()
            gc.freeze()
            self._collected = time.monotonic()

    def tells(self) -> bool:
        """Whether it is time to report what the state holds."""
        now = time.monotonic()
        if now - self._told < _TELLS_AFTER_S:
            return False
        self._told = now
        return True
