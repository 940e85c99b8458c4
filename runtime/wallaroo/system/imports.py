"""Imports of much code, without looks for garbage meanwhile."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Disable garbage collection in the block; later collections ignore what exists at its end.

    What modules create stays, and Python would look through it again and again: that is an eighth
    of the processor time of imports.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
