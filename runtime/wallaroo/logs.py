"""Structured logs: readable on a terminal, one JSON object a line elsewhere; always on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure(level: str = "info") -> None:
    """Set up logging for this process.

    Args:
        level: Least severe level that is shown: debug, info, warning or error.
    """
    terminal = sys.stderr.isatty()
    renderer: Any = (
        structlog.dev.ConsoleRenderer(pad_event_to=24)
        if terminal
        else structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S" if terminal else "iso", utc=not terminal
            ),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


class Repeats:
    """Lets the first few events of a kind through, then fewer and fewer.

    Example:
        >>> repeats = Repeats()
        >>> [n for n in range(1, 2001) if repeats.show("x")]
        [1, 2, 3, 10, 100, 1000]
    """

    FIRST = 3
    MOST_KINDS = 10_000
    """Kinds that are told apart, before counting begins anew: bounds the memory."""

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    def show(self, kind: Any) -> bool:
        """Count an event of *kind*; tells whether to show it."""
        if len(self._seen) >= self.MOST_KINDS:
            self._seen.clear()
        seen = self._seen[kind] = self._seen.get(kind, 0) + 1
        return seen <= self.FIRST or str(seen).strip("0") == "1"
