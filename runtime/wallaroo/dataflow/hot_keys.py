"""Counts messages by key, to tell of each state the keys with the most messages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wallaroo.wire.task_metrics import TaskMetrics

_REPORT_S = 0.25
"""Seconds between two reports: to count the keys of each chunk would cost a tenth of running it."""
_MOST_MESSAGES = 20_000
"""Number of messages from which a report does not wait."""
_FEW = 4_096
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
        self._keys: dict[int, list[Any]] = {number: [] for number in names}
        """The key of each message since the last report, by state."""
        self._clock = clock
        self._due = clock()

    def add(self, state: int, keys: Sequence[Any]) -> None:
        """Note a message of each of *keys*."""
        self._keys[state] += keys

    def report(self) -> None:
        """Add the counts to the metrics if it is time for a report."""
        now = self._clock()
        if now < self._due and all(len(keys) < _MOST_MESSAGES for keys in self._keys.values()):
            return
        self._due = now + _REPORT_S
        for state, keys in self._keys.items():
            self._metrics.add_hot_keys(self._names[state], _counted(keys), len(keys))
            keys.clear()


def _counted(keys: Sequence[Any]) -> Mapping[Any, int]:
    """Messages by key: of all of them, or of some in the place of all."""
    if len(keys) <= _FEW:
        return Counter(keys)
    some = Counter(keys[::_EVERY])
    return {key: count * _EVERY for key, count in some.items() if count > 1}
