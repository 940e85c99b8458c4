"""Counts messages by key, to tell of each state the keys with the most messages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wallaroo.wire.task_metrics import TaskMetrics

_REPORT_S = 0.25
"""Seconds between two reports: to sort out the keys of each chunk would cost as much as to run it.
"""
_MOST_KEYS = 10_000
"""Number of keys from which a report does not wait."""
_FEW = 1024
"""In more messages than that, only one in `_EVERY` is counted, for that number."""
_EVERY = 16


class HotKeys:
    """Counts messages by key, over several chunks.

    Args:
        names: Names of the states by number.
        metrics: Gets what was counted.
        clock: Seconds, for tests.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        metrics: TaskMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._metrics = metrics
        self._counts: dict[int, Counter[Any]] = {number: Counter() for number in names}
        self._clock = clock
        self._due = clock()

    def count(self, state: int, key: Any, messages: int = 1) -> None:
        """Count *messages* of *key*."""
        counts = self._counts[state]
        counts[key] = counts.get(key, 0) + messages

    def count_all(self, state: int, keys: Sequence[Any]) -> None:
        """Count a message of each of *keys*, or of some in the place of all."""
        if len(keys) <= _FEW:
            self._counts[state].update(keys)
            return
        for key, count in Counter(keys[::_EVERY]).items():
            if count > 1:
                self.count(state, key, count * _EVERY)

    def report(self) -> None:
        """Add what was counted to the metrics if that is due."""
        now = self._clock()
        if now < self._due and all(len(counts) < _MOST_KEYS for counts in self._counts.values()):
            return
        self._due = now + _REPORT_S
        for state, counts in self._counts.items():
            self._metrics.add_hot_keys(self._names[state], counts)
            counts.clear()
