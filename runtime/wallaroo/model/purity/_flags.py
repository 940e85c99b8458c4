"""What may be said of the value of an expression, without knowing it."""

from __future__ import annotations

from wallaroo.model.purity._source import Doubt

OBJECT = 1
"""It is, or holds, what may have an address in its text."""
ORDER = 2
"""It is, or holds, a set: its order may differ from process to process."""
STREAM = 4
"""It is used up by whoever reads it."""
UNSTABLE = 8
"""It may differ from process to process: fit for the text of an error alone."""


def sound(flags: int) -> int:
    """*flags*, for what is to be kept, compared or calculated with.

    Raises:
        Doubt: It is used up by that, or differs from process to process.
    """
    if flags & (STREAM | UNSTABLE):
        raise Doubt(flags)
    return flags
