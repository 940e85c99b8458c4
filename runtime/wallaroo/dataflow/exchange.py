"""The exchange: distributes messages with keys to buckets, as rows that are side by side in each.

Packed rows cost little more for many keys than for few, and so do state computations over them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.dataflow.current_input import offset_of
from wallaroo.dataflow.message_snapshots import Snapshot, restored
from wallaroo.dataflow.packing import Rows, packed_rows
from wallaroo.dataflow.paths import key_failed
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults, preview
from wallaroo.dataflow.rows import Keyed, selected
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.records import Packed


@time_limited
class Exchange:
    """Collects the messages of a chunk by bucket; for partitions without stamps.

    Args:
        program: The program.
        results: Collects failed messages.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._rows: dict[int, list[Rows]] = defaultdict(list)

    def add(self, stage: StatefulStage, keyed: Keyed) -> None:
        """Add messages that have arrived at *stage*, in order of arrival."""
        program, listed = self._program, self._program.partitions[stage.partition].keys
        try:
            buckets = program.buckets_of(keyed.keys)
        except (Exception, SystemExit):
            keyed = self._with_valid_keys(stage, keyed)
            buckets = program.buckets_of(keyed.keys)
        if listed is not None and not listed.issuperset(keyed.keys):
            is_listed = [key in listed for key in keyed.keys]
            others = selected([not one for one in is_listed], *keyed)
            for key, item, arrival in zip(*others, strict=True):
                self._unroutable(stage, key, item, arrival)
            *columns, buckets = selected(is_listed, *keyed, buckets)
            keyed = Keyed(*columns)
        found: dict[int, tuple[list[Any], list[Snapshot], list[Any]]] = {}
        for bucket, key, item, arrival in zip(buckets, *keyed, strict=True):
            of_bucket = found.get(bucket)
            if of_bucket is None:
                of_bucket = found[bucket] = self._columns(stage, bucket)
            keys, items, arrivals = of_bucket
            keys.append(key)
            items.append(item)
            arrivals.append(arrival)

    def packed(self, arrivals: bytes) -> list[Packed]:
        """Return the packed messages of each bucket; *arrivals* are those of all, packed."""
        return [Packed(1, bucket, packed_rows(of, arrivals)) for bucket, of in self._rows.items()]

    def _columns(
        self, stage: StatefulStage, bucket: int
    ) -> tuple[list[Any], list[Snapshot], list[Any]]:
        """Where the rows of *bucket* end, for messages that arrive at *stage*."""
        rows = self._rows[bucket]
        if not rows or rows[-1][1] != stage.number:
            rows.append((stage.partition, stage.number, [], [], []))
        _, _, keys, items, arrivals = rows[-1]
        return keys, items, arrivals

    def _with_valid_keys(self, stage: StatefulStage, keyed: Keyed) -> Keyed:
        """Return the messages in *keyed* with valid keys; the others are dead-lettered."""
        valid: list[bool] = []
        for key, item, arrival in zip(*keyed, strict=True):
            try:
                self._program.bucket_of(key)
                valid.append(True)
            except (Exception, SystemExit) as error:
                message, origin = self._message(stage, item), Origin(None, offset_of(arrival))
                key_failed(stage, message, error, self._results, origin)
                valid.append(False)
        return Keyed(*selected(valid, *keyed))

    def _unroutable(self, stage: StatefulStage, key: Any, item: Snapshot, arrival: Any) -> None:
        partition, origin = self._program.partitions[stage.partition], preview(key, 100)
        message = self._message(stage, item)
        self._results.unroutable(
            stage, stage.step, partition, key, message, Origin(origin, offset_of(arrival))
        )

    @runs_step("stage")
    def _message(self, stage: StatefulStage, item: Snapshot) -> Any:
        """Return the message that crosses to *stage* as *item*, or the item if it is unloadable."""
        restore = self._program.restores(stage)
        try:
            message = restored(item)
            return message if restore is None else restore(message)
        except (Exception, SystemExit):
            return item
