"""Flags that describe the value of an expression."""

from __future__ import annotations

from wallaroo.model.purity._source import Doubt

OBJECT = 1
"""It is or contains an object whose text may include its address."""
ORDER = 2
"""It is or contains a set, whose order may differ between processes."""
STREAM = 4
"""It is an iterator, which is consumed by reading it."""
UNSTABLE = 8
"""It may differ between processes, and may only be used in the text of an error."""


def sound(flags: int) -> int:
    """Return *flags* if the value may be stored, compared or used in a calculation.

    Raises:
        Doubt: That would consume it, or it may differ between processes.
    """
    if flags & (STREAM | UNSTABLE):
        raise Doubt(flags)
    return flags
