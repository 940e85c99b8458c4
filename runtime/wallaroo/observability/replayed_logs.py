"""Recognises lines of user code that were told before, because their messages ran before.

A message may run several times: its process has died, or is copied to find out which message ends
it. A worker says with each line to which work it belongs, and how often the work has said the same.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

_MOST_WORKS = 256
"""Works that are remembered: more than are unfinished at a time."""
_MOST_LINES = 2_000
"""Lines of one work that are remembered."""

Mark = tuple[str, int]
"""Name of a work, and how often it has said a line."""


class Work:
    """What a worker does now, such as a chunk of messages.

    Example:
        >>> work = Work()
        >>> work.begin("chunk 7")
        >>> work.mark("ada"), work.mark("ada"), work.mark("grace")
        (('chunk 7', 1), ('chunk 7', 2), ('chunk 7', 1))
    """

    def __init__(self) -> None:
        self._name: str | None = None
        self._said: Counter[Any] = Counter()

    def begin(self, name: str | None) -> None:
        """From now on, lines belong to the work *name*; None for none."""
        self._name = name
        if self._said:
            self._said.clear()

    def mark(self, line: Any) -> Mark | None:
        """What tells that *line* is the same when the work is done again; None without work."""
        if self._name is None or len(self._said) >= _MOST_LINES:
            return None
        self._said[line] += 1
        return self._name, self._said[line]


class Told:
    """Remembers the lines of the last works.

    Example:
        >>> told = Told()
        >>> [told.is_new(("chunk 7", n), "ada") for n in (1, 2, 1, 2, 3)]
        [True, True, False, False, True]
        >>> told.is_new(("chunk 8", 1), "ada")
        True
    """

    def __init__(self) -> None:
        self._works: OrderedDict[str, dict[Any, int]] = OrderedDict()

    def is_new(self, mark: Mark, line: Any) -> bool:
        """Whether *line* was not told yet with this mark; remembers it."""
        work, times = mark
        lines = self._works.setdefault(work, {})
        self._works.move_to_end(work)
        if len(self._works) > _MOST_WORKS:
            self._works.popitem(last=False)
        if times <= lines.get(line, 0):
            return False
        lines[line] = times
        return True
