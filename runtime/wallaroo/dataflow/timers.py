"""Timers that close windows: the keys of one bucket by the time of their timer."""

from __future__ import annotations

import heapq
import itertools
from typing import Any


class Timers:
    """Timers by key; setting one costs the logarithm of their number.

    Example:
        >>> timers = Timers()
        >>> timers.set(0, "b", 20)
        >>> timers.set(0, "a", 10)
        >>> timers.next_ns()
        10
        >>> timers.set(0, "a", 30)
        >>> timers.take_due(25), timers.next_ns()
        ([(0, 'b')], 30)
    """

    def __init__(self) -> None:
        self._due: dict[tuple[int, Any], tuple[int | None, Any]] = {}
        """Time of each key's timer, if any, and the first of several equal keys."""
        self._heap: list[tuple[int, int, int, Any]] = []
        """Time, a serial number that avoids comparing keys, partition, key; entries that differ
        from `_due` are obsolete."""
        self._serial = itertools.count()

    def set(self, partition: int, key: Any, due_ns: int | None) -> None:
        """Set the timer of *key* in *partition* to *due_ns*, or clear it if that is None."""
        previous, first = self._due.get((partition, key), (None, key))
        self._due[partition, key] = due_ns, first
        if due_ns is not None and due_ns != previous:
            heapq.heappush(self._heap, (due_ns, next(self._serial), partition, first))

    def of(self, partition: int, key: Any) -> int | None:
        """Return the time of the timer of *key* in *partition*; None if it is not set."""
        return self._due.get((partition, key), (None, None))[0]

    def forget(self, partition: int, key: Any) -> None:
        """Remove *key* of *partition*."""
        self._due.pop((partition, key), None)

    def next_ns(self) -> int | None:
        """Return the time of the next timer; None if there is none."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ns: int) -> list[tuple[int, Any]]:
        """Return partitions and keys whose timers expire by *now_ns*, in order, and clear these."""
        taken: list[tuple[int, Any]] = []
        while (due := self.next_ns()) is not None and due <= now_ns:
            _, _, partition, key = heapq.heappop(self._heap)
            self._due[partition, key] = None, key
            taken.append((partition, key))
        return taken

    def _is_current(self, entry: tuple[int, int, int, Any]) -> bool:
        due, _, partition, key = entry
        return self._due.get((partition, key), (None, None))[0] == due
