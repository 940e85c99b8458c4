"""Keeps the garbage collector away from a task's messages and from the state.

Messages are freed by reference counting; searching millions of messages or entities for cycles
would double the cost of a step. The collector therefore runs only after a task, on the objects that
the task has left alive. These are then frozen and examined only occasionally. PySpark also collects
after each task, and then finds nothing to traverse.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator

_FULL_EVERY_S = 600.0
"""Seconds between full collections, which take half a second or more with a million entities."""
_last_full = time.monotonic()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the cyclic collector within the block, and freeze surviving objects afterwards."""
    global _last_full  # noqa: PLW0603
    gc.disable()
    try:
        yield
    finally:
        now = time.monotonic()
        if now - _last_full > _FULL_EVERY_S:
            gc.unfreeze()
            _last_full = now
        gc.collect()
        gc.freeze()
        gc.enable()
