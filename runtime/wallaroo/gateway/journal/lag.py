"""The unprocessed bytes of each source: its lead over the engine."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence

_STEP_BYTES = 256 * 1024
"""Bytes of a source that are counted as one: so few numbers say how far a long backlog reaches."""


class Ahead:
    """Counts messages from when they are handed in until they are processed.

    What is on disk is given with the offset behind it, in order. A part of a step that is processed
    counts until all of it is.

    Example:
        >>> ahead = Ahead()
        >>> ahead.found([(0, 5, 200_000), (0, 9, 100_000)])
        >>> ahead.processed(5), ahead.of(0)
        (False, 300000)
        >>> ahead.processed(9), ahead.of(0)
        (True, 0)
    """

    def __init__(self) -> None:
        self._bytes: Counter[int] = Counter()
        self._steps: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        """By source, the offset behind each step, and its bytes."""

    def of(self, source: int) -> int:
        """Bytes of *source* that are not processed."""
        return self._bytes[source]

    def handed_in(self, source: int, size: int) -> None:
        """Note that *size* bytes have come, and are not on disk yet."""
        self._bytes[source] += size

    def stored(self, parts: Iterable[tuple[int, int, int]]) -> None:
        """Note that what was handed in is on disk: sources, offsets behind them, and bytes."""
        for source, end, size in parts:
            steps = self._steps[source]
            before = steps.pop()[1] if steps and steps[-1][1] < _STEP_BYTES else 0
            steps.append((end, before + size))

    def found(self, parts: Sequence[tuple[int, int, int]]) -> None:
        """Note what is on disk at the start, as for `stored`."""
        for source, _, size in parts:
            self.handed_in(source, size)
        self.stored(parts)

    def processed(self, end: int) -> bool:
        """Note that all before offset *end* is processed; returns whether that makes room."""
        less = False
        for source, steps in self._steps.items():
            while steps and steps[0][0] <= end:
                self._bytes[source] -= steps.popleft()[1]
                less = True
        return less
