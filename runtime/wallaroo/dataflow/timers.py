"""Timers that close windows: the keys of one bucket by the time of their timer."""

from __future__ import annotations

import heapq
import itertools
from typing import Any, NamedTuple


class _Set(NamedTuple):
    """The timer of a key."""

    due: int | None
    """Its time; None if it is cleared."""
    serial: int
    """Its place among those of the same time."""
    queued: int | None
    """Time of the entry of the heap that stands for it, which is not later; None without one."""
    first: Any
    """The first of several equal keys."""


class Timers:
    """Timers by key; setting one costs the logarithm of their number, or nothing if it is later.

    Each message of a session moves its timer. So a timer that is set to a later time keeps its
    entry in the heap, which is moved when it comes to the front: the heap is as large as the number
    of keys, not of messages.

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
        self._timers: dict[tuple[int, Any], _Set] = {}
        """By partition and key."""
        self._heap: list[tuple[int, int, int, Any]] = []
        """Time, a serial number that avoids comparing keys, partition, key; entries that no timer
        is queued as are obsolete."""
        self._serial = itertools.count()

    def set(self, partition: int, key: Any, due_ns: int | None) -> None:
        """Set the timer of *key* in *partition* to *due_ns*, or clear it if that is None."""
        where = partition, key
        timer = self._timers.get(where)
        if timer is None:
            timer = _Set(None, 0, None, key)
        elif timer.due == due_ns:
            return
        _, _, queued, first = timer
        serial = next(self._serial)
        if due_ns is not None and (queued is None or due_ns < queued):
            heapq.heappush(self._heap, (due_ns, serial, partition, first))
            queued = due_ns
        self._timers[where] = _Set(due_ns, serial, queued, first)

    def of(self, partition: int, key: Any) -> int | None:
        """Return the time of the timer of *key* in *partition*; None if it is not set."""
        timer = self._timers.get((partition, key))
        return None if timer is None else timer.due

    def forget(self, partition: int, key: Any) -> None:
        """Remove *key* of *partition*."""
        self._timers.pop((partition, key), None)

    def next_ns(self) -> int | None:
        """Return the time of the next timer; None if there is none."""
        heap = self._heap
        while heap:
            at, _, partition, first = heap[0]
            timer = self._timers.get((partition, first))
            if timer is None or timer.queued != at:
                heapq.heappop(heap)
            elif timer.due == at:
                return at
            elif timer.due is None:
                heapq.heappop(heap)
                self._timers[partition, first] = timer._replace(queued=None)
            else:
                heapq.heapreplace(heap, (timer.due, timer.serial, partition, timer.first))
                self._timers[partition, first] = timer._replace(queued=timer.due)
        return None

    def take_due(self, now_ns: int) -> list[tuple[int, Any]]:
        """Return partitions and keys whose timers expire by *now_ns*, in order, and clear these."""
        taken: list[tuple[int, Any]] = []
        while (due := self.next_ns()) is not None and due <= now_ns:
            _, _, partition, first = heapq.heappop(self._heap)
            self._timers[partition, first] = _Set(None, 0, None, first)
            taken.append((partition, first))
        return taken
