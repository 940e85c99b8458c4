"""The first stage: from frames to messages for the buckets of their keys.

Where no stateless step comes before the key, the payloads themselves cross the exchange and are
decoded once more behind it: that costs a tenth of pickling the messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

from wallaroo.engine.figures import StepFigures
from wallaroo.engine.flow import Flow, Outgoing, key_failed
from wallaroo.engine.packing import (
    TICK,
    Arrivals,
    Group,
    Packed,
    Runs,
    packed_group,
    packed_rows,
    problem_of_pickling,
)
from wallaroo.engine.ports import TICK_SOURCE, Chunk
from wallaroo.engine.program import Leg, Program, Way
from wallaroo.engine.results import Named, NamedStep, Origin, TaskResults, origins
from wallaroo.engine.steps import Messages, applied, emit, through
from wallaroo.model.application import Compute

Groups = dict[Any, list[Any]]
"""Items by key."""
ArrivalsByKey = Mapping[Any, Arrivals]
"""Arrival numbers of messages by key; none of payloads."""
_NO_ARRIVALS: Arrivals = []
_DENSE = 4
"""Items for a key from which on grouping them saves more than it costs."""
_DECODER = "decoder"
"""Name of the step that a decoder is; where payloads cross, finding the key counts to it."""


class Router:
    """The first stage of a program, over chunks of the journal.

    Messages of one key, and of the ways whose order shows by itself, travel in groups; the others
    are stamped, and go through `Flow`.

    Args:
        program: What to run.
        results: Takes the outputs of pipelines without a stateful step, and what is set aside.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._outgoing = Outgoing(program, results, fresh=True)
        self._flow = Flow(program, results, self._outgoing.add, fresh=True)

    def route(self, chunks: Iterable[Chunk]) -> list[Packed]:
        """Run the first stage over *chunks*.

        Returns:
            What goes to each bucket, for `Worker.run` of its level.
        """
        by_partition: list[dict[Any, Runs]] = [{} for _ in self._program.partitions]
        arrived: list[tuple[int, int, int]] = []
        for chunk in chunks:
            if chunk.source == TICK_SOURCE:
                self._outgoing.add_tick(((chunk.first, chunk.arrived_ns), TICK, None, None))
                continue
            arrived.append((chunk.source, chunk.arrived_ns, chunk.messages))
            ways = self._program.ways_of_source[chunk.source]
            payloads = ways[0].source.framing.split(chunk.data)
            for way in ways:
                leg = None if way.before.leg is None else self._program.legs[way.before.leg]
                if leg is None and way.before.is_plain:
                    self._finish(way, chunk.first, payloads)
                elif leg is None or leg.partition in self._program.stamped:
                    self._stamp(way, leg, chunk, payloads)
                else:
                    grouped = self._grouped(leg, chunk.first, payloads)
                    _append(by_partition[leg.partition], leg.number, *grouped)
        self._flow.finish()
        self._results.figures.add_arrivals(arrived)
        return self._packed(by_partition) + self._outgoing.packed()

    def _finish(self, way: Way, first: int, payloads: list[bytes]) -> None:
        emit(way.before, self._made(way, first, payloads), self._results)

    def _made(self, way: Way, first: int, payloads: list[bytes]) -> Messages:
        """What comes of *payloads*, the first of which has arrival number *first*."""
        messages = self._decoded(way, first, payloads)
        return through(way, _computations(way), messages, self._results)

    def _decoded(self, way: Way, first: int, payloads: list[bytes]) -> Messages:
        arrived = Messages(payloads, range(first, first + len(payloads)))
        return applied(way, _decoder(way), way.source.decode, arrived, self._results)

    def _stamp(self, way: Way, leg: Leg | None, chunk: Chunk, payloads: list[bytes]) -> None:
        first, arrived = chunk.first, chunk.arrived_ns
        decoded = self._decoded(way, first, payloads)
        for message, arrival in zip(decoded.items, decoded.arrivals, strict=True):
            stamp = (arrival, arrived, way.number)
            if leg is not None and leg.ships_payloads:
                self._flow.cross(leg, stamp, None, message, payloads[arrival - first])
            else:
                self._flow.go(way.before, stamp, None, message)

    def _grouped(self, leg: Leg, first: int, payloads: list[bytes]) -> tuple[Groups, ArrivalsByKey]:
        """Items by key: payloads where nothing comes before the key, else messages."""
        way, key_of = self._way_of(leg), leg.step.key
        assert key_of is not None
        groups: Groups = defaultdict(list)
        arrivals: dict[Any, Arrivals] = defaultdict(list)
        if leg.ships_payloads:
            decode, lost = way.source.decode, 0
            began = perf_counter()
            for place, payload in enumerate(payloads):
                try:
                    message = decode(payload)
                except (Exception, SystemExit) as error:
                    origin = Origin(None, first + place)
                    self._results.failed(way, _decoder(way), payload, error, origin)
                    lost += 1
                    continue
                if message is None:
                    lost += 1
                    continue
                try:
                    groups[key_of(message)].append(payload)
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results, first + place)
            seconds = perf_counter() - began
            self._figures(way).note(len(payloads), len(payloads) - lost, seconds)
        else:
            made = self._made(way, first, payloads)
            for message, arrival in zip(made.items, made.arrivals, strict=True):
                try:
                    key = key_of(message)
                    groups[key].append(message)
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results, arrival)
                    continue
                arrivals[key].append(arrival)
            self._serialize(leg, groups, arrivals)
        return self._listed(leg, groups, arrivals), arrivals

    def _serialize(self, leg: Leg, groups: Groups, arrivals: dict[Any, Arrivals]) -> None:
        serialization = self._program.application.serialization
        if serialization is not None:
            for key in groups:
                self._serialize_items(leg, serialization.serialize, groups[key], arrivals[key])

    def _serialize_items(
        self, leg: Leg, serialize: Callable[[Any], bytes], items: list[Any], arrivals: Arrivals
    ) -> None:
        """Put what is serialized of *items* in their place, without those that cannot be."""
        made: list[tuple[bytes, int | None]] = []
        for message, arrival in zip(items, arrivals, strict=True):
            try:
                made.append((serialize(message), arrival))
            except (Exception, SystemExit) as error:
                self._results.failed(leg, leg.step, message, error, Origin(None, arrival))
        items[:] = [item for item, _ in made]
        arrivals[:] = [arrival for _, arrival in made]

    def _figures(self, way: Way) -> StepFigures:
        return self._results.figures.step(way.pipeline, _DECODER)

    def _way_of(self, leg: Leg) -> Way:
        return next(way for way in self._program.ways if way.before.leg == leg.number)

    def _listed(self, leg: Leg, groups: Groups, arrivals: ArrivalsByKey) -> Groups:
        """*groups* without the keys that the partition does not list; those are set aside."""
        partition = self._program.partitions[leg.partition]
        if partition.keys is None or groups.keys() <= partition.keys:
            return groups
        for key in groups.keys() - partition.keys:
            of = arrivals.get(key, _NO_ARRIVALS)
            for item, origin in origins(leg, key, groups.pop(key), of):
                message = leg.message(item)
                self._results.unroutable(leg, leg.step, partition.name, key, message, origin)
        return groups

    def _packed(self, by_partition: list[dict[Any, Runs]]) -> list[Packed]:
        groups: dict[int, Group] = defaultdict(list)
        for number, runs_of_key in enumerate(by_partition):
            for key, runs in runs_of_key.items():
                try:
                    bucket = self._program.bucket_of(key)
                except Exception:  # a key that does not pickle: its messages are told one by one
                    self._only_packable([(number, key, runs)])
                    continue
                groups[bucket].append((number, key, runs))
        return [Packed(1, bucket, self._blob(group)) for bucket, group in groups.items()]

    def _blob(self, group: Group) -> bytes:
        items = sum(len(items) for _, _, runs in group for _, items, _ in runs)
        packed = packed_group if items > _DENSE * len(group) else _packed_as_rows
        try:
            return packed(group)
        except Exception:
            return packed(self._only_packable(group))

    def _only_packable(self, group: Group) -> Group:
        """*group* without the messages that do not pickle; those are set aside."""
        kept: Group = []
        for number, key, runs in group:
            kept_runs: Runs = []
            for leg_number, items, arrivals in runs:
                leg = self._program.legs[leg_number]
                kept_runs.append((leg_number, [], []))
                for place, (item, origin) in enumerate(origins(leg, key, items, arrivals)):
                    if (error := problem_of_pickling(key, item)) is None:
                        kept_runs[-1][1].append(item)
                        kept_runs[-1][2].extend(arrivals[place : place + 1])
                    else:
                        self._results.failed(leg, leg.step, leg.message(item), error, origin)
            kept.append((number, key, kept_runs))
        return kept


def _packed_as_rows(group: Group) -> bytes:
    """*group* as rows: first what each key got first. So the order of each key stays as it is."""
    rows: dict[tuple[int, int, int], tuple[list[Any], list[Any], Arrivals]] = {}
    for number, key, runs in group:
        for turn, (leg, items, arrivals) in enumerate(runs):
            row = rows.get((turn, number, leg))
            if row is None:
                row = rows[turn, number, leg] = ([], [], [])
            if len(items) == 1:
                row[0].append(key)
                row[1].append(items[0])
            else:
                row[0].extend([key] * len(items))
                row[1].extend(items)
            if arrivals:
                row[2].extend(arrivals)
    in_turn = sorted(rows.items(), key=lambda row: row[0][0])
    return packed_rows([(number, leg, *columns) for (_, number, leg), columns in in_turn])


def _decoder(way: Way) -> Named:
    return NamedStep(_DECODER, way.source.place)


def _computations(way: Way) -> list[Compute]:
    return [step for step in way.before.steps if isinstance(step, Compute)]


def _append(
    runs_of_key: dict[Any, Runs], leg: int, groups: Groups, arrivals: ArrivalsByKey
) -> None:
    """Put *groups*, which arrived after all that is in *runs_of_key*, behind it."""
    for key, items in groups.items():
        runs, of = runs_of_key.get(key), arrivals.get(key, _NO_ARRIVALS)
        if runs is None:
            runs_of_key[key] = [(leg, items, of)]
        elif runs[-1][0] == leg:
            runs[-1][1].extend(items)
            runs[-1][2].extend(of)
        else:
            runs.append((leg, items, of))
