"""Keeping the garbage collector away from a task's messages and from the state.

Messages die by their reference counts; walking millions of them, or of state entities, for cycles
would double the cost of a step. So cycles are looked for once a task has run, among what it made
and left alive; what is alive then is frozen, and is looked at again only from time to time. PySpark
also collects after each task, and finds nothing to walk.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator

_EVERYTHING_AFTER_S = 600.0
"""Seconds between two looks at everything: half a second and more, with a million entities."""
_looked_at = time.monotonic()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Switch the cyclic collector off inside the block, and spare what is alive after it."""
    global _looked_at  # noqa: PLW0603
    gc.disable()
    try:
        yield
    finally:
        now = time.monotonic()
        if now - _looked_at > _EVERYTHING_AFTER_S:
            gc.unfreeze()
            _looked_at = now
        gc.collect()
        gc.freeze()
        gc.enable()
