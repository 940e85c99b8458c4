"""The first stage: from frames to messages for the buckets of their keys.

Where no stateless step comes before the key, the payloads themselves cross the exchange and are
decoded once more behind it: that costs a tenth of pickling the messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from wallaroo.engine.figures import StepFigures
from wallaroo.engine.flow import Flow, Outgoing, key_failed
from wallaroo.engine.packing import (
    TICK,
    Group,
    Packed,
    Runs,
    packed_group,
    packed_rows,
    problem_of_pickling,
)
from wallaroo.engine.ports import TICK_SOURCE, Chunk
from wallaroo.engine.program import Leg, Program, Way
from wallaroo.engine.results import Named, NamedStep, TaskResults
from wallaroo.engine.steps import applied, emit, through
from wallaroo.model.application import Compute

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
        self._outgoing = Outgoing(program, results)
        self._flow = Flow(program, results, self._outgoing.add)

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
                    self._finish(way, payloads)
                elif leg is None or leg.partition in self._program.stamped:
                    self._stamp(way, leg, chunk, payloads)
                else:
                    _append(by_partition[leg.partition], leg.number, self._grouped(leg, payloads))
        self._flow.finish()
        self._results.figures.add_arrivals(arrived)
        return self._packed(by_partition) + self._outgoing.packed()

    def _finish(self, way: Way, payloads: list[bytes]) -> None:
        messages = applied(way, _decoder(way), way.source.decode, payloads, self._results)
        made = through(way, _computations(way), messages, self._results)
        emit(way.before, made, self._results)

    def _stamp(self, way: Way, leg: Leg | None, chunk: Chunk, payloads: list[bytes]) -> None:
        first, arrived = chunk.first, chunk.arrived_ns
        for place, message in self._decoded(way, payloads):
            stamp = (first + place, arrived, way.number)
            if leg is not None and leg.ships_payloads:
                self._flow.cross(leg, stamp, None, message, payloads[place])
            else:
                self._flow.go(way.before, stamp, None, message)

    def _decoded(self, way: Way, payloads: list[bytes]) -> list[tuple[int, Any]]:
        """The messages of *payloads*, each with its place among them."""
        decode, messages = way.source.decode, list[tuple[int, Any]]()
        began = perf_counter()
        for place, payload in enumerate(payloads):
            try:
                message = decode(payload)
            except (Exception, SystemExit) as error:
                self._results.failed(way, _decoder(way), payload, error)
                continue
            if message is not None:
                messages.append((place, message))
        seconds = perf_counter() - began
        self._figures(way).note(len(payloads), len(messages), seconds)
        return messages

    def _grouped(self, leg: Leg, payloads: list[bytes]) -> dict[Any, list[Any]]:
        """Items by key: payloads where nothing comes before the key, else messages."""
        way, key_of = self._way_of(leg), leg.step.key
        assert key_of is not None
        groups: dict[Any, list[Any]] = defaultdict(list)
        if leg.ships_payloads:
            decode, lost = way.source.decode, 0
            began = perf_counter()
            for payload in payloads:
                try:
                    message = decode(payload)
                except (Exception, SystemExit) as error:
                    self._results.failed(way, _decoder(way), payload, error)
                    lost += 1
                    continue
                if message is None:
                    lost += 1
                    continue
                try:
                    groups[key_of(message)].append(payload)
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results)
            seconds = perf_counter() - began
            self._figures(way).note(len(payloads), len(payloads) - lost, seconds)
        else:
            messages = applied(way, _decoder(way), way.source.decode, payloads, self._results)
            for message in through(way, _computations(way), messages, self._results):
                try:
                    groups[key_of(message)].append(message)
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results)
            self._serialize(leg, groups)
        return self._listed(leg, groups)

    def _serialize(self, leg: Leg, groups: dict[Any, list[Any]]) -> None:
        serialization = self._program.application.serialization
        if serialization is not None:
            for key, messages in groups.items():
                groups[key] = self._serialized(leg, serialization.serialize, messages)

    def _serialized(
        self, leg: Leg, serialize: Callable[[Any], bytes], messages: list[Any]
    ) -> list[bytes]:
        made: list[bytes] = []
        for message in messages:
            try:
                made.append(serialize(message))
            except (Exception, SystemExit) as error:
                self._results.failed(leg, leg.step, message, error)
        return made

    def _figures(self, way: Way) -> StepFigures:
        return self._results.figures.step(way.pipeline, _DECODER)

    def _way_of(self, leg: Leg) -> Way:
        return next(way for way in self._program.ways if way.before.leg == leg.number)

    def _listed(self, leg: Leg, groups: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
        """*groups* without the keys that the partition does not list; those are counted."""
        partition = self._program.partitions[leg.partition]
        if partition.keys is None or groups.keys() <= partition.keys:
            return groups
        for key in groups.keys() - partition.keys:
            self._results.tally.add_unknown_key(partition.name, key, len(groups.pop(key)))
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
        items = sum(len(items) for _, _, runs in group for _, items in runs)
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
            for leg_number, items in runs:
                leg = self._program.legs[leg_number]
                kept_runs.append((leg_number, []))
                for item in items:
                    if (error := problem_of_pickling(key, item)) is None:
                        kept_runs[-1][1].append(item)
                    else:
                        self._results.failed(leg, leg.step, leg.message(item), error)
            kept.append((number, key, kept_runs))
        return kept


def _packed_as_rows(group: Group) -> bytes:
    """*group* as rows: first what each key got first. So the order of each key stays as it is."""
    rows: dict[tuple[int, int, int], tuple[list[Any], list[Any]]] = {}
    for number, key, runs in group:
        for turn, (leg, items) in enumerate(runs):
            row = rows.get((turn, number, leg))
            if row is None:
                row = rows[turn, number, leg] = ([], [])
            if len(items) == 1:
                row[0].append(key)
                row[1].append(items[0])
            else:
                row[0].extend([key] * len(items))
                row[1].extend(items)
    in_turn = sorted(rows.items(), key=lambda row: row[0][0])
    return packed_rows([(number, leg, *columns) for (_, number, leg), columns in in_turn])


def _decoder(way: Way) -> Named:
    return NamedStep(_DECODER, way.source.place)


def _computations(way: Way) -> list[Compute]:
    return [step for step in way.before.steps if isinstance(step, Compute)]


def _append(runs_of_key: dict[Any, Runs], leg: int, groups: dict[Any, list[Any]]) -> None:
    """Put *groups*, which arrived after all that is in *runs_of_key*, behind it."""
    for key, items in groups.items():
        runs = runs_of_key.get(key)
        if runs is None:
            runs_of_key[key] = [(leg, items)]
        elif runs[-1][0] == leg:
            runs[-1][1].extend(items)
        else:
            runs.append((leg, items))
