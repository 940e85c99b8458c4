"""The exchange: distributes messages with keys to buckets.

If many messages share a key, they travel as groups: the bucket is determined once per key, and the
state computation runs over a list. If keys differ between messages, a group for each would cost
more than the message, so messages travel as rows, side by side in each bucket. Which of them it is
is decided for each chunk and state, as soon as there are messages to judge by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from wallaroo.dataflow.message_snapshots import Snapshot, restored
from wallaroo.dataflow.packing import Group, Rows, Runs, packed_group, packed_rows
from wallaroo.dataflow.paths import key_failed
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults, preview
from wallaroo.dataflow.rows import Keyed, buckets_of, selected
from wallaroo.model.keys.buckets import SAFE, are_safe
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.records import Packed

_DENSE = 24
"""Minimum average number of messages per key for which groups are worthwhile."""
_AT_ONCE = 8192
"""Messages to distribute to buckets at a time: as many as fit into the processor's cache."""


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
        self._arrived: dict[int, list[tuple[StatefulStage, Keyed]]] = {}
        """Messages to distribute, by partition."""
        self._waiting: dict[int, int] = {}
        """Number of these messages, by partition."""
        self._as_groups: dict[int, bool] = {}
        """Whether messages travel as groups, by partition; fixed during a chunk, to preserve the
        order."""
        self._runs: dict[int, dict[Any, Runs]] = defaultdict(dict)
        self._groups: dict[int, Group] = defaultdict(list)
        self._rows: dict[int, list[Rows]] = defaultdict(list)

    def add(self, stage: StatefulStage, keyed: Keyed) -> None:
        """Add messages that have arrived at *stage*, in order of arrival."""
        partition = stage.partition
        self._arrived.setdefault(partition, []).append((stage, keyed))
        waiting = self._waiting.get(partition, 0) + len(keyed.keys)
        self._waiting[partition] = waiting
        if waiting >= _AT_ONCE:
            self._distribute(partition)

    def packed(self) -> list[Packed]:
        """Return the packed messages of each bucket."""
        for partition in list(self._arrived):
            self._distribute(partition)
        return [
            *(Packed(1, bucket, packed_group(of)) for bucket, of in self._groups.items()),
            *(Packed(1, bucket, packed_rows(of)) for bucket, of in self._rows.items()),
        ]

    def _distribute(self, partition: int) -> None:
        arrived, waiting = self._arrived.pop(partition), self._waiting.pop(partition)
        as_groups = self._as_groups.get(partition)
        if as_groups is None:
            as_groups = self._as_groups[partition] = _are_dense(arrived, waiting)
        for stage, keyed in arrived:
            if as_groups:
                self._take_groups(stage, keyed)
            else:
                self._take_rows(stage, keyed)

    def _take_groups(self, stage: StatefulStage, keyed: Keyed) -> None:
        # a dictionary may treat an invalid key as a valid one that equals it
        if not are_safe(keyed.keys):
            keyed = self._with_valid_keys(stage, keyed)
        try:
            self._add_groups(stage, keyed)
        except Exception:  # nothing has been added yet
            self._add_groups(stage, self._with_valid_keys(stage, keyed))

    def _add_groups(self, stage: StatefulStage, keyed: Keyed) -> None:
        items_of: dict[Any, list[Snapshot]] = defaultdict(list)
        arrivals_of: dict[Any, list[int]] = defaultdict(list)
        for key, item, arrival in zip(*keyed, strict=True):
            items_of[key].append(item)
            arrivals_of[key].append(arrival)
        runs_of_key = self._runs[stage.partition]
        buckets = list(map(self._program.bucket_of, items_of))
        listed = self._program.partitions[stage.partition].keys
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

    def _take_rows(self, stage: StatefulStage, keyed: Keyed) -> None:
        program, of_listed = self._program, self._program.buckets_of_listed(stage.partition)
        if of_listed is not None and SAFE.issuperset(map(type, keyed.keys)):
            known = list(map(of_listed.get, keyed.keys))
            if None not in known:
                self._add_rows(stage, keyed, known)
                return
        try:
            buckets = buckets_of(keyed.keys, program.buckets, program.bucket_of)
        except (Exception, SystemExit):
            keyed = self._with_valid_keys(stage, keyed)
            buckets = buckets_of(keyed.keys, program.buckets, program.bucket_of)
        if of_listed is not None:
            is_listed = [key in of_listed for key in keyed.keys]
            others = selected([not one for one in is_listed], *keyed)
            for key, item, arrival in zip(*others, strict=True):
                self._unroutable(stage, key, [item], [arrival])
            *columns, buckets = selected(is_listed, *keyed, buckets)
            keyed = Keyed(*columns)
        self._add_rows(stage, keyed, buckets)

    def _add_rows(self, stage: StatefulStage, keyed: Keyed, buckets: Sequence[Any]) -> None:
        columns: dict[int, tuple[list[Any], list[Snapshot], list[int]]] = {}
        for bucket, key, item, arrival in zip(buckets, *keyed, strict=True):
            of_bucket = columns.get(bucket)
            if of_bucket is None:
                of_bucket = columns[bucket] = self._columns(stage, bucket)
            keys, items, arrivals = of_bucket
            keys.append(key)
            items.append(item)
            arrivals.append(arrival)

    def _columns(
        self, stage: StatefulStage, bucket: int
    ) -> tuple[list[Any], list[Snapshot], list[int]]:
        """Where the rows of *bucket* end, for messages that arrive at *stage*."""
        rows = self._rows[bucket]
        if not rows or rows[-1][1] != stage.number:
            rows.append((stage.partition, stage.number, [], [], []))
        _, _, *columns = rows[-1]
        keys, items, arrivals = columns
        return keys, items, arrivals

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


def _are_dense(arrived: Sequence[tuple[StatefulStage, Keyed]], messages: int) -> bool:
    """Whether that many *messages* have few keys."""
    if messages <= _DENSE:
        return False
    keys = chain.from_iterable(keyed.keys for _, keyed in arrived)
    most = messages // _DENSE if _DENSE else messages
    try:
        # mostly, the first few messages have too many keys already
        found = set(islice(keys, 2 * most + 2))
        if len(found) <= most:
            found.update(keys)
    except (Exception, SystemExit):  # of a value that is no key
        return False
    return messages > _DENSE * len(found)
