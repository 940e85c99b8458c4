"""Messages on their way to the buckets of later levels, each with a stamp.

Unless the order of arrival is implicit, messages are stamped with their position in it. Outputs of
steps get the stamp of their message, extended by their index among its outputs. Sorting by stamp
therefore yields the order in which a single process would run the messages, each to completion
before the next.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.dataflow.packing import Packed, Stamp, Stamped, packed_items
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import NOWHERE, Origin, TaskResults


class Outgoing:
    """Collects messages by level and bucket.

    Args:
        program: The program.
        results: Collects failed messages.
        fresh: Whether the messages have not passed through state yet.
    """

    def __init__(self, program: Program, results: TaskResults, *, fresh: bool) -> None:
        self._fresh = fresh
        self._program = program
        self._results = results
        self._items: dict[tuple[int, int], list[Stamped]] = defaultdict(list)

    def add(self, stage: StatefulStage, stamp: Stamp, key: Any, message: Any) -> None:
        """Send *message* to the level and bucket of *stage* and *key*."""
        origin = Origin(None, stamp[0]) if self._fresh else NOWHERE
        try:
            taken = self._program.carrier.take(message)
        except (Exception, SystemExit) as error:
            self._results.failed(stage, stage.step, message, error, origin)
            return
        bucket = self._program.bucket_in(stage.partition, key)
        level = self._program.levels.level(stage.partition)
        self._items[level, bucket].append((stamp, stage.number, key, taken))

    def add_tick(self, tick: Stamped) -> None:
        """Send *tick* to all buckets of all levels with windows."""
        for level in {self._program.levels.level(number) for number in self._program.timed}:
            for bucket in range(self._program.buckets):
                self._items[level, bucket].append(tick)

    def packed(self) -> list[Packed]:
        """Return the packed messages and clear the collection."""
        packed = [
            Packed(level, bucket, packed_items(items))
            for (level, bucket), items in self._items.items()
        ]
        self._items.clear()
        return packed
