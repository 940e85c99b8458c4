"""Messages on their way to the buckets of later levels, each with a stamp.

Unless the order of arrival is implicit, messages are stamped with their position in it. Outputs of
steps get the stamp of their message, extended by their index among its outputs. Sorting by stamp
therefore yields the order in which a single process would run the messages, each to completion
before the next.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.dataflow.current_input import CurrentInput
from wallaroo.dataflow.packing import Stamped, packed_items
from wallaroo.dataflow.paths import At, Path
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import NOWHERE, Origin, TaskResults
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.records import Packed


@time_limited
class Outgoing:
    """Collects messages by level and bucket.

    Args:
        program: The program.
        results: Collects failed messages.
        current: The input of the message that is being sent.
        fresh: Whether the messages have not passed through state yet.
    """

    def __init__(
        self, program: Program, results: TaskResults, current: CurrentInput, *, fresh: bool
    ) -> None:
        self._fresh = fresh
        self._program = program
        self._results = results
        new = current.collecting if program.keeps else list
        self._items: dict[int, dict[int, list[Stamped]]] = defaultdict(lambda: defaultdict(new))
        """By level and bucket."""

    @runs_step("stage")
    def to(self, stage: StatefulStage) -> Path:
        """Return the path to the level of *stage* and the buckets of the messages' keys."""
        program, number = self._program, stage.number
        items = self._items[program.levels.level(stage.partition)]
        take, bucket_of = program.carrier.take, program.bucket_of
        serial = program.levels.serial_number(stage.partition)
        only = None if serial is None else serial % program.buckets

        def send(at: At, key: Any, message: Any) -> None:
            assert isinstance(at, tuple)
            try:
                taken = take(message)
            except (Exception, SystemExit) as error:
                origin = Origin(None, at[0]) if self._fresh else NOWHERE
                self._results.failed(stage, stage.step, message, error, origin)
                return
            bucket = bucket_of(key)  # in any case, to detect invalid keys
            items[bucket if only is None else only].append((at, number, key, taken))

        return send

    def add_tick(self, tick: Stamped) -> None:
        """Send *tick* to all buckets of all levels with windows."""
        for level in {self._program.levels.level(number) for number in self._program.timed}:
            for bucket in range(self._program.buckets):
                self._items[level][bucket].append(tick)

    def packed(self, arrivals: bytes) -> list[Packed]:
        """Return the packed messages, with their packed *arrivals*, and clear the collection."""
        packed = [
            Packed(level, bucket, packed_items(items, arrivals))
            for level, of_level in self._items.items()
            for bucket, items in of_level.items()
        ]
        for of_level in self._items.values():
            of_level.clear()
        return packed
