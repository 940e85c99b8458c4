"""The exchange: from messages with keys to what each bucket gets of them.

Where many messages come for a key, they travel as groups: the bucket is found once for each key,
and the state computation runs over a list. Where keys differ from message to message, a group for
each would cost more than the message: then they travel as rows, side by side for each bucket.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.engine.flow import key_failed
from wallaroo.engine.packing import (
    Arrivals,
    Group,
    Packed,
    Rows,
    Runs,
    packed_group,
    packed_rows,
    problem_of_pickling,
)
from wallaroo.engine.program import Leg, Program
from wallaroo.engine.results import Origin, TaskResults, origin_at, origins
from wallaroo.engine.rows import Keyed, kept_of, rows_by_bucket

_DENSE = 24
"""Messages for a key from which on a group for it saves more than it costs."""
_SPREAD_AT_ONCE = 8192
"""Messages that are spread over the buckets at a time: as many as the processor's cache holds."""


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
        self._arrived: dict[int, list[tuple[Leg, Keyed]]] = defaultdict(list)
        """By partition: what is to be spread as rows."""
        self._waiting = [0] * len(program.partitions)
        """By partition: how many messages that is."""
        self._rows: dict[int, list[Rows]] = defaultdict(list)

    def add(self, leg: Leg, keyed: Keyed) -> None:
        """Take what has come to *leg*, behind all that has come before."""
        if self._program.application.serialization is not None and not leg.ships_payloads:
            keyed = self._serialized(leg, keyed)
        if leg.partition in self._as_rows:
            self._arrived[leg.partition].append((leg, keyed))
            self._waiting[leg.partition] += len(keyed.keys)
            if self._waiting[leg.partition] >= _SPREAD_AT_ONCE:
                self._spread(self._arrived.pop(leg.partition))
                self._waiting[leg.partition] = 0
            return
        try:
            self._add_groups(leg, keyed)
        except (Exception, SystemExit):  # nothing was added yet
            self._add_groups(leg, self._usable(leg, keyed))

    def packed(self) -> list[Packed]:
        """What there is for each bucket."""
        for arrived in self._arrived.values():
            self._spread(arrived)
        self._note_density()
        return [
            *(Packed(1, bucket, self._blob_of_group(of)) for bucket, of in self._groups.items()),
            *(Packed(1, bucket, self._blob_of_rows(of)) for bucket, of in self._rows.items()),
        ]

    def _add_groups(self, leg: Leg, keyed: Keyed) -> None:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for key, item in zip(keyed.keys, keyed.items, strict=True):
            groups[key].append(item)
        arrivals: dict[Any, Arrivals] = defaultdict(list)
        if not leg.ships_payloads:
            for key, arrival in zip(keyed.keys, keyed.arrivals, strict=True):
                arrivals[key].append(arrival)
        buckets = list(map(self._program.bucket_of, groups))
        listed = self._program.partitions[leg.partition].keys
        runs_of_key = self._runs[leg.partition]
        self._taken[leg.partition] += len(keyed.keys)
        for (key, items), bucket in zip(groups.items(), buckets, strict=True):
            of: Arrivals = arrivals[key] if arrivals else []
            runs = runs_of_key.get(key)
            if runs is None:
                if listed is not None and key not in listed:
                    self._unroutable(leg, key, items, of)
                    continue
                runs = runs_of_key[key] = []
                self._groups[bucket].append((leg.partition, key, runs))
            if runs and runs[-1][0] == leg.number:
                runs[-1][1].extend(items)
                runs[-1][2].extend(of)
            else:
                runs.append((leg.number, items, of))

    def _spread(self, arrived: list[tuple[Leg, Keyed]]) -> None:
        """Put what has come to the legs of a partition into the rows of its buckets."""
        try:
            spread = list(rows_by_bucket(arrived, self._program.buckets))
        except (Exception, SystemExit):
            usable = [(leg, self._usable(leg, keyed)) for leg, keyed in arrived]
            spread = list(rows_by_bucket(usable, self._program.buckets))
        for bucket, rows in spread:
            of_bucket = self._rows[bucket]
            if of_bucket and of_bucket[-1][:2] == rows[:2]:
                for column, more in zip(of_bucket[-1][2:], rows[2:], strict=True):
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

    def _serialized(self, leg: Leg, keyed: Keyed) -> Keyed:
        """*keyed* with what the application serializes of the messages."""
        serialization = self._program.application.serialization
        assert serialization is not None
        made, kept = list[bytes](), list[bool]()
        for message, arrival in zip(keyed.items, keyed.arrivals, strict=True):
            try:
                made.append(serialization.serialize(message))
                kept.append(True)
            except (Exception, SystemExit) as error:
                self._results.failed(leg, leg.step, message, error, Origin(None, arrival))
                kept.append(False)
        keys, arrivals = kept_of(kept, keyed.keys, keyed.arrivals)
        return Keyed(keys, made, arrivals)

    def _usable(self, leg: Leg, keyed: Keyed) -> Keyed:
        """*keyed* without the messages whose keys have no bucket; those are set aside."""
        kept: list[bool] = []
        for key, item, arrival in zip(*keyed, strict=True):
            try:
                self._program.bucket_of(key)
                kept.append(True)
            except (Exception, SystemExit) as error:
                key_failed(leg, leg.message(item), error, self._results, arrival)
                kept.append(False)
        return Keyed(*kept_of(kept, *keyed))

    def _unroutable(self, leg: Leg, key: Any, items: list[Any], arrivals: Arrivals) -> None:
        name = self._program.partitions[leg.partition].name
        for item, origin in origins(leg, key, items, arrivals):
            self._results.unroutable(leg, leg.step, name, key, leg.message(item), origin)

    def _blob_of_group(self, group: Group) -> bytes:
        try:
            return packed_group(group)
        except Exception:
            packable: Group = []
            for number, key, runs in group:
                packable.append((number, key, []))
                for leg, items, arrivals in runs:
                    columns = self._packable(leg, [key] * len(items), items, arrivals)
                    packable[-1][2].append((leg, *columns[1:]))
            return packed_group(packable)

    def _blob_of_rows(self, rows: list[Rows]) -> bytes:
        try:
            return packed_rows(rows)
        except Exception:
            return packed_rows(
                [(number, leg, *self._packable(leg, *columns)) for number, leg, *columns in rows]
            )

    def _packable(
        self, leg_number: int, keys: list[Any], items: list[Any], arrivals: Arrivals
    ) -> tuple[list[Any], list[Any], Arrivals]:
        """The columns without the messages that do not pickle; those are set aside."""
        leg, kept = self._program.legs[leg_number], list[bool]()
        for place, (key, item) in enumerate(zip(keys, items, strict=True)):
            error = problem_of_pickling(key, item)
            kept.append(error is None)
            if error is not None:
                origin = origin_at(place, leg, key, items, arrivals)
                self._results.failed(leg, leg.step, leg.message(item), error, origin)
        keys, items, arrivals = kept_of(kept, keys, items, arrivals)
        return keys, items, arrivals
