"""The exchange: from messages with keys to what each bucket gets of them.

Where many messages come for a key, they travel as groups: the bucket is found once for each key,
and the state computation runs over a list. Where keys differ from message to message, a group for
each would cost more than the message: then they travel as rows, side by side for each bucket.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.dataflow.packing import Group, Packed, Rows, Runs, packed_group, packed_rows
from wallaroo.dataflow.paths import key_failed
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults, shown
from wallaroo.dataflow.rows import Keyed, kept_of, rows_by_bucket
from wallaroo.dataflow.snapshots import Snapshot, restored
from wallaroo.model.callers import runs_step, time_limited
from wallaroo.model.keys.buckets import are_safe

_DENSE = 24
"""Messages for a key from which on a group for it saves more than it costs."""
_SPREAD_AT_ONCE = 8192
"""Messages that are spread over the buckets at a time: as many as the processor's cache holds."""


@time_limited
class Exchange:
    """What a block of the journal has for the buckets, whose order shows by itself.

    Args:
        program: What is run.
        results: Takes what is set aside.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._as_rows = frozenset(program.sparse)  # the same for all of a block: order is kept
        self._runs: list[dict[Any, Runs]] = [{} for _ in program.partitions]
        self._taken = [0] * len(program.partitions)
        self._groups: dict[int, Group] = defaultdict(list)
        self._arrived: dict[int, list[tuple[StatefulStage, Keyed]]] = defaultdict(list)
        """By partition: what is to be spread as rows."""
        self._waiting = [0] * len(program.partitions)
        """By partition: how many messages that is."""
        self._rows: dict[int, list[Rows]] = defaultdict(list)

    def add(self, leg: StatefulStage, keyed: Keyed) -> None:
        """Take what has come to *leg*, after all that has come before."""
        if leg.partition in self._as_rows:
            self._arrived[leg.partition].append((leg, keyed))
            self._waiting[leg.partition] += len(keyed.keys)
            if self._waiting[leg.partition] >= _SPREAD_AT_ONCE:
                self._spread(self._arrived.pop(leg.partition))
                self._waiting[leg.partition] = 0
            return
        # in a dictionary, a value that is not a valid key may pass for one that it is equal to
        if not are_safe(keyed.keys):
            keyed = self._usable(leg, keyed)
        try:
            self._add_groups(leg, keyed)
        except Exception:  # nothing was added yet
            self._add_groups(leg, self._usable(leg, keyed))

    def packed(self) -> list[Packed]:
        """What there is for each bucket."""
        for arrived in self._arrived.values():
            self._spread(arrived)
        self._note_density()
        return [
            *(Packed(1, bucket, packed_group(of)) for bucket, of in self._groups.items()),
            *(Packed(1, bucket, packed_rows(of)) for bucket, of in self._rows.items()),
        ]

    def _add_groups(self, leg: StatefulStage, keyed: Keyed) -> None:
        places: dict[Any, list[int]] = defaultdict(list)
        for place, key in enumerate(keyed.keys):
            places[key].append(place)
        runs_of_key = self._runs[leg.partition]
        buckets = list(map(self._program.bucket_of, places))
        listed = self._program.partitions[leg.partition].keys
        self._taken[leg.partition] += len(keyed.keys)
        item, arrival = keyed.items.__getitem__, keyed.arrivals.__getitem__
        for (key, of_key), bucket in zip(places.items(), buckets, strict=True):
            items, arrivals = list(map(item, of_key)), list(map(arrival, of_key))
            runs = runs_of_key.get(key)
            if runs is None:
                if listed is not None and key not in listed:
                    self._unroutable(leg, key, items, arrivals)
                    continue
                runs = runs_of_key[key] = []
                self._groups[bucket].append((leg.partition, key, runs))
            if runs and runs[-1][0] == leg.number:
                runs[-1][1].extend(items)
                runs[-1][2].extend(arrivals)
            else:
                runs.append((leg.number, items, arrivals))

    def _spread(self, arrived: list[tuple[StatefulStage, Keyed]]) -> None:
        """Put what has come to the legs of a partition into the rows of its buckets."""
        try:
            spread = list(rows_by_bucket(arrived, self._program.buckets))
        except (Exception, SystemExit):
            usable = [(leg, self._usable(leg, keyed)) for leg, keyed in arrived]
            spread = list(rows_by_bucket(usable, self._program.buckets))
        for bucket, rows in spread:
            of_bucket = self._rows[bucket]
            if of_bucket and of_bucket[-1][:2] == rows[:2]:
                _, _, *columns = of_bucket[-1]
                for column, more in zip(columns, rows[2:], strict=True):
                    column.extend(more)
            else:
                of_bucket.append(rows)

    def _note_density(self) -> None:
        """Note which partitions had few messages for a key, for the blocks to come."""
        sparse = self._program.sparse
        for number, runs_of_key in enumerate(self._runs):
            few = 0 < self._taken[number] <= _DENSE * len(runs_of_key)
            if few and self._program.partitions[number].keys is None:
                sparse.add(number)
        of_some_bucket = next(iter(self._rows.values()), [])
        for number in self._as_rows:
            columns = [keys for partition, _, keys, _, _ in of_some_bucket if partition == number]
            if sum(map(len, columns)) > _DENSE * len(set().union(*columns)):
                sparse.discard(number)

    def _usable(self, leg: StatefulStage, keyed: Keyed) -> Keyed:
        """*keyed* without the messages whose keys are not valid; those are set aside."""
        kept: list[bool] = []
        for key, item, arrival in zip(*keyed, strict=True):
            try:
                self._program.bucket_of(key)
                kept.append(True)
            except (Exception, SystemExit) as error:
                key_failed(
                    leg, self._message(leg, item), error, self._results, Origin(None, arrival)
                )
                kept.append(False)
        return Keyed(*kept_of(kept, *keyed))

    def _unroutable(
        self, leg: StatefulStage, key: Any, items: list[Snapshot], arrivals: list[int]
    ) -> None:
        partition, printable = self._program.partitions[leg.partition], shown(key, 100)
        for item, arrival in zip(items, arrivals, strict=True):
            message, origin = self._message(leg, item), Origin(printable, arrival)
            self._results.unroutable(leg, leg.step, partition, key, message, origin)

    @runs_step("leg")
    def _message(self, leg: StatefulStage, item: Snapshot) -> Any:
        """The message that crosses to *leg* as *item*, to report it; else the item."""
        restore = self._program.restores(leg)
        try:
            message = restored(item)
            return message if restore is None else restore(message)
        except (Exception, SystemExit):
            return item
