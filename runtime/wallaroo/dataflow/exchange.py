"""The exchange: distributes messages with keys to buckets.

If many messages share a key, they travel as groups: the bucket is determined once per key, and the
state computation runs over a list. If keys differ between messages, a group for each would cost
more than the message, so messages travel as rows, side by side in each bucket.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.dataflow.message_snapshots import Snapshot, restored
from wallaroo.dataflow.packing import Group, Rows, Runs, packed_group, packed_rows
from wallaroo.dataflow.paths import key_failed
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults, preview
from wallaroo.dataflow.rows import Keyed, rows_by_bucket, selected
from wallaroo.model.keys.buckets import are_safe
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.records import Packed

_DENSE = 24
"""Minimum average number of messages per key for which groups are worthwhile."""
_SPREAD_AT_ONCE = 8192
"""Messages to distribute to buckets at a time: as many as fit into the processor's cache."""


@time_limited
class Exchange:
    """Collects the messages of a block of the journal by bucket; for partitions without stamps.

    Args:
        program: The program.
        results: Collects failed messages.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._as_rows = frozenset(program.sparse)  # fixed during a block, to preserve the order
        self._runs: list[dict[Any, Runs]] = [{} for _ in program.partitions]
        self._taken = [0] * len(program.partitions)
        self._groups: dict[int, Group] = defaultdict(list)
        self._arrived: dict[int, list[tuple[StatefulStage, Keyed]]] = defaultdict(list)
        """Messages to distribute as rows, by partition."""
        self._waiting = [0] * len(program.partitions)
        """Number of these messages, by partition."""
        self._rows: dict[int, list[Rows]] = defaultdict(list)

    def add(self, stage: StatefulStage, keyed: Keyed) -> None:
        """Add messages that have arrived at *stage*, in order of arrival."""
        if stage.partition in self._as_rows:
            self._arrived[stage.partition].append((stage, keyed))
            self._waiting[stage.partition] += len(keyed.keys)
            if self._waiting[stage.partition] >= _SPREAD_AT_ONCE:
                self._spread(self._arrived.pop(stage.partition))
                self._waiting[stage.partition] = 0
            return
        # a dictionary may treat an invalid key as a valid one that equals it
        if not are_safe(keyed.keys):
            keyed = self._with_valid_keys(stage, keyed)
        try:
            self._add_groups(stage, keyed)
        except Exception:  # nothing has been added yet
            self._add_groups(stage, self._with_valid_keys(stage, keyed))

    def packed(self) -> list[Packed]:
        """Return the packed messages of each bucket."""
        for arrived in self._arrived.values():
            self._spread(arrived)
        self._note_density()
        return [
            *(Packed(1, bucket, packed_group(of)) for bucket, of in self._groups.items()),
            *(Packed(1, bucket, packed_rows(of)) for bucket, of in self._rows.items()),
        ]

    def _add_groups(self, stage: StatefulStage, keyed: Keyed) -> None:
        items_of: dict[Any, list[Snapshot]] = defaultdict(list)
        arrivals_of: dict[Any, list[int]] = defaultdict(list)
        for key, item, arrival in zip(*keyed, strict=True):
            items_of[key].append(item)
            arrivals_of[key].append(arrival)
        runs_of_key = self._runs[stage.partition]
        buckets = list(map(self._program.bucket_of, items_of))
        listed = self._program.partitions[stage.partition].keys
        self._taken[stage.partition] += len(keyed.keys)
        groups = zip(items_of.items(), arrivals_of.values(), buckets, strict=True)
        for (key, items), arrivals, bucket in groups:
            runs = runs_of_key.get(key)
            if runs is None:
                if listed is not None and key not in listed:
                    self._unroutable(stage, key, items, arrivals)
                    continue
                runs = runs_of_key[key] = []
                self._groups[bucket].append((stage.partition, key, runs))
            if runs and runs[-1][0] == stage.number:
                runs[-1][1].extend(items)
                runs[-1][2].extend(arrivals)
            else:
                runs.append((stage.number, items, arrivals))

    def _spread(self, arrived: list[tuple[StatefulStage, Keyed]]) -> None:
        """Distribute messages for the stages of one partition to the rows of its buckets."""
        try:
            spread = list(rows_by_bucket(arrived, self._program.buckets))
        except (Exception, SystemExit):
            valid = [(stage, self._with_valid_keys(stage, keyed)) for stage, keyed in arrived]
            spread = list(rows_by_bucket(valid, self._program.buckets))
        for bucket, rows in spread:
            of_bucket = self._rows[bucket]
            if of_bucket and of_bucket[-1][:2] == rows[:2]:
                _, _, *columns = of_bucket[-1]
                for column, more in zip(columns, rows[2:], strict=True):
                    column.extend(more)
            else:
                of_bucket.append(rows)

    def _note_density(self) -> None:
        """Note which partitions had few messages per key, for later blocks."""
        sparse = self._program.sparse
        for number, runs_of_key in enumerate(self._runs):
            few = 0 < self._taken[number] <= _DENSE * len(runs_of_key)
            if few and self._program.partitions[number].keys is None:
                sparse.add(number)
        sample = next(iter(self._rows.values()), [])
        for number in self._as_rows:
            columns = [keys for partition, _, keys, _, _ in sample if partition == number]
            if sum(map(len, columns)) > _DENSE * len(set().union(*columns)):
                sparse.discard(number)

    def _with_valid_keys(self, stage: StatefulStage, keyed: Keyed) -> Keyed:
        """Return the messages in *keyed* with valid keys; the others are dead-lettered."""
        valid: list[bool] = []
        for key, item, arrival in zip(*keyed, strict=True):
            try:
                self._program.bucket_of(key)
                valid.append(True)
            except (Exception, SystemExit) as error:
                key_failed(
                    stage, self._message(stage, item), error, self._results, Origin(None, arrival)
                )
                valid.append(False)
        return Keyed(*selected(valid, *keyed))

    def _unroutable(
        self, stage: StatefulStage, key: Any, items: list[Snapshot], arrivals: list[int]
    ) -> None:
        partition, printable = self._program.partitions[stage.partition], preview(key, 100)
        for item, arrival in zip(items, arrivals, strict=True):
            message, origin = self._message(stage, item), Origin(printable, arrival)
            self._results.unroutable(stage, stage.step, partition, key, message, origin)

    @runs_step("stage")
    def _message(self, stage: StatefulStage, item: Snapshot) -> Any:
        """Return the message that crosses to *stage* as *item*, or the item if it is unloadable."""
        restore = self._program.restores(stage)
        try:
            message = restored(item)
            return message if restore is None else restore(message)
        except (Exception, SystemExit):
            return item
