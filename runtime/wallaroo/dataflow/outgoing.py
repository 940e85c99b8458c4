"""Messages on their way to the buckets of later levels, each with its stamp.

Where the order of arrival does not show by itself, messages are stamped with their place in it;
what steps make of a message gets its stamp, and which it was of what they made. So wherever such
messages meet, sorting by stamp gives the order in which one process would have run them, each
through all that it leads to before the next.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.dataflow.packing import Packed, Stamp, Stamped, packed_items
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import NOWHERE, Origin, TaskResults


class Outgoing:
    """Collects what goes to each level and bucket.

    Args:
        program: What is run.
        results: Takes what is set aside.
        fresh: Whether no state has seen the messages before.
    """

    def __init__(self, program: Program, results: TaskResults, *, fresh: bool) -> None:
        self._fresh = fresh
        self._program = program
        self._results = results
        self._items: dict[tuple[int, int], list[Stamped]] = defaultdict(list)

    def add(self, leg: StatefulStage, stamp: Stamp, key: Any, message: Any) -> None:
        """Send *message* to the level and bucket of the leg's partition and its key."""
        origin = Origin(None, stamp[0]) if self._fresh else NOWHERE
        try:
            taken = self._program.carrier.take(message)
        except (Exception, SystemExit) as error:
            self._results.failed(leg, leg.step, message, error, origin)
            return
        bucket = self._program.bucket_in(leg.partition, key)
        level = self._program.levels.level(leg.partition)
        self._items[level, bucket].append((stamp, leg.number, key, taken))

    def add_tick(self, tick: Stamped) -> None:
        """Send *tick* to every bucket of every level that has windows."""
        for level in {self._program.levels.level(number) for number in self._program.timed}:
            for bucket in range(self._program.buckets):
                self._items[level, bucket].append(tick)

    def packed(self) -> list[Packed]:
        """What there is to send; nothing is left here afterwards."""
        packed = [
            Packed(level, bucket, packed_items(items))
            for (level, bucket), items in self._items.items()
        ]
        self._items.clear()
        return packed
