"""The cause of a query's end, extracted from Spark's lengthy error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """Why a query that was started no longer runs."""

    reason: str
    final: bool = False
    """Whether it would fail for the same reason when started again."""
    damage: bool = False
    """Whether files of its state cannot be read, which few further attempts decide."""
    planned: bool = False
    """Whether it was ended in good order, and is to be started again."""
    no_room: bool = False
    """Whether a disk is full, which a process of the query has found."""


def cause_of(error: str) -> str:
    r"""Return the line of *error*, the failure of a query, that states the cause.

    Example:
        >>> cause_of("[STREAM_FAILED] …\nTraceback (most recent call last):\n  …\nKeyError: 3")
        'KeyError: 3'
        >>> cause_of("An error occurred …\n: java.io.IOException: Stream closed\n\tat java.base …")
        'java.io.IOException: Stream closed'
    """
    tracebacks = re.findall(
        r"^(?:: )?([\w.]+(?:Error|Exception|Failure|Interrupt)\b.*)$", error, re.MULTILINE
    )
    lines = [line for line in error.splitlines() if line.strip()]
    chosen: Sequence[str] = tracebacks or lines[:1] or ["Spark gave no reason"]
    return chosen[-1].strip()
