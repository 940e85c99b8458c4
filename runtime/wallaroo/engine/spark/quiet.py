"""Keeping the garbage collector away from a task's short-lived messages.

Messages die by their reference counts; walking millions of them for cycles doubles the cost of a
step. Cycles that user code does make are collected between tasks.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_COLLECT_EVERY = 64
"""Tasks between two collections: some seconds under load."""
_tasks = 0


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Switch the cyclic collector off inside the block; every so often, collect after it."""
    global _tasks  # noqa: PLW0603
    gc.disable()
    try:
        yield
    finally:
        _tasks += 1
        if _tasks % _COLLECT_EVERY == 0:
            gc.collect()
        gc.enable()
