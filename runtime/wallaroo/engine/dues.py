"""When the clock has to close windows: the keys of one bucket, by the time they are due."""

from __future__ import annotations

import heapq
import itertools
from typing import Any


class Dues:
    """Keys by the time they are due; a change costs what the logarithm of their number is.

    Example:
        >>> dues = Dues()
        >>> dues.set(0, "b", 20)
        >>> dues.set(0, "a", 10)
        >>> dues.next_ns()
        10
        >>> dues.set(0, "a", 30)
        >>> dues.take_due(25), dues.next_ns()
        ([(0, 'b')], 30)
    """

    def __init__(self) -> None:
        self._due: dict[tuple[int, Any], int] = {}
        self._heap: list[tuple[int, int, int, Any]] = []
        """Due time, a serial number in the place of comparing keys, partition, key; entries that
        `_due` does not confirm are out of date."""
        self._serial = itertools.count()

    def set(self, partition: int, key: Any, due_ns: int | None) -> None:
        """Note that *key* of *partition* is due at *due_ns*, or never if that is None."""
        entry = (partition, key)
        if due_ns is None:
            self._due.pop(entry, None)
        elif self._due.get(entry) != due_ns:
            self._due[entry] = due_ns
            heapq.heappush(self._heap, (due_ns, next(self._serial), partition, key))

    def next_ns(self) -> int | None:
        """When the first key is due; None if none is."""
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ns: int) -> list[tuple[int, Any]]:
        """Partitions and keys that are due at *now_ns*, in order; they are due no more."""
        taken: list[tuple[int, Any]] = []
        while (due := self.next_ns()) is not None and due <= now_ns:
            _, _, partition, key = heapq.heappop(self._heap)
            del self._due[partition, key]
            taken.append((partition, key))
        return taken

    def _holds(self, entry: tuple[int, int, int, Any]) -> bool:
        due, _, partition, key = entry
        return self._due.get((partition, key)) == due
