"""The switch for waiting for an unavailable schema registry: off in simulations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_waits: ContextVar[bool] = ContextVar("waits", default=True)


def waits() -> bool:
    """Whether to wait."""
    return _waits.get()


@contextmanager
def without_waiting() -> Iterator[None]:
    """Within the block, a registry that does not answer is an error at once.

    Example:
        >>> with without_waiting():
        ...     waits()
        False
    """
    token = _waits.set(False)
    try:
        yield
    finally:
        _waits.reset(token)
