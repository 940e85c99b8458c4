"""Keeping the garbage collector away from a task's messages and from the state.

Messages die by their reference counts; walking millions of them, or of state entities, for cycles
would double the cost of a step. PySpark also collects after each task: what is alive by then is
frozen, so that this finds nothing to walk. Cycles that user code makes are collected now and then.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_COLLECT_EVERY = 256
"""Tasks between two collections: some minutes at least."""
_tasks = 0


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Switch the cyclic collector off inside the block, and spare what is alive after it."""
    global _tasks  # noqa: PLW0603
    gc.disable()
    try:
        yield
    finally:
        _tasks += 1
        if _tasks % _COLLECT_EVERY == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.enable()
