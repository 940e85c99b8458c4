"""When the clock has to close windows: the keys of one bucket, by the time they are due."""

from __future__ import annotations

import heapq
import itertools
from typing import Any


class Timers:
    """Keys by the time they are due; a change costs what the logarithm of their number is.

    Example:
        >>> dues = Timers()
        >>> dues.set(0, "b", 20)
        >>> dues.set(0, "a", 10)
        >>> dues.next_ns()
        10
        >>> dues.set(0, "a", 30)
        >>> dues.take_due(25), dues.next_ns()
        ([(0, 'b')], 30)
    """

    def __init__(self) -> None:
        self._due: dict[tuple[int, Any], tuple[int | None, Any]] = {}
        """When a key is due, if at all, and the key as it was set first: equal ones may differ."""
        self._heap: list[tuple[int, int, int, Any]] = []
        """Due time, a serial number in the place of comparing keys, partition, key; entries that
        `_due` does not confirm are out of date."""
        self._serial = itertools.count()

    def set(self, partition: int, key: Any, due_ns: int | None) -> None:
        """Note that *key* of *partition* is due at *due_ns*, or not yet if that is None."""
        before, first = self._due.get((partition, key), (None, key))
        self._due[partition, key] = due_ns, first
        if due_ns is not None and due_ns != before:
            heapq.heappush(self._heap, (due_ns, next(self._serial), partition, first))

    def forget(self, partition: int, key: Any) -> None:
        """Note that *key* of *partition* is gone."""
        self._due.pop((partition, key), None)

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
            self._due[partition, key] = None, key
            taken.append((partition, key))
        return taken

    def _holds(self, entry: tuple[int, int, int, Any]) -> bool:
        due, _, partition, key = entry
        return self._due.get((partition, key), (None, None))[0] == due
