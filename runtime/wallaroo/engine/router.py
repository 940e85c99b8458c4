"""The first stage: from frames to messages for the buckets of their keys.

Where no stateless step comes before the key, the payloads themselves cross the exchange and are
decoded once more behind it: that costs a tenth of pickling the messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from wallaroo.engine.flow import Flow, Outgoing, key_failed
from wallaroo.engine.packing import (
    TICK,
    Arrivals,
    Group,
    Packed,
    Runs,
    packed_group,
    problem_of_pickling,
)
from wallaroo.engine.ports import TICK_SOURCE, Chunk
from wallaroo.engine.program import Leg, Program, Way
from wallaroo.engine.results import Named, NamedStep, Origin, TaskResults, origins
from wallaroo.engine.steps import Messages, applied, emit, through
from wallaroo.model.application import Compute

Items = tuple[list[Any], Arrivals]
"""What goes to one key of one leg; the arrival numbers only of messages, not of payloads."""


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
        for chunk in chunks:
            if chunk.source == TICK_SOURCE:
                self._outgoing.add_tick(((chunk.first, chunk.arrived_ns), TICK, None, None))
                continue
            ways = self._program.ways_of_source[chunk.source]
            payloads = ways[0].source.framing.split(chunk.data)
            for way in ways:
                leg = None if way.before.leg is None else self._program.legs[way.before.leg]
                if leg is None and way.before.is_plain:
                    self._finish(way, chunk.first, payloads)
                elif leg is None or leg.partition in self._program.stamped:
                    self._stamp(way, leg, chunk, payloads)
                else:
                    _append(
                        by_partition[leg.partition],
                        leg.number,
                        self._grouped(leg, chunk.first, payloads),
                    )
        self._flow.finish()
        return self._packed(by_partition) + self._outgoing.packed()

    def _finish(self, way: Way, first: int, payloads: list[bytes]) -> None:
        emit(way.before, self._made(way, first, payloads), self._results)

    def _made(self, way: Way, first: int, payloads: list[bytes]) -> Messages:
        """What comes of *payloads*, the first of which has arrival number *first*."""
        arrived = Messages(payloads, first.__add__)
        messages = applied(way, _decoder(way), way.source.decode, arrived, self._results)
        return through(way, _computations(way), messages, self._results)

    def _stamp(self, way: Way, leg: Leg | None, chunk: Chunk, payloads: list[bytes]) -> None:
        decode, first, arrived = way.source.decode, chunk.first, chunk.arrived_ns
        for place, payload in enumerate(payloads):
            try:
                message = decode(payload)
            except (Exception, SystemExit) as error:
                origin = Origin(None, first + place)
                self._results.failed(way, _decoder(way), payload, error, origin)
                continue
            if message is None:
                continue
            stamp = (first + place, arrived, way.number)
            if leg is not None and leg.ships_payloads:
                self._flow.cross(leg, stamp, None, message, payload)
            else:
                self._flow.go(way.before, stamp, None, message)

    def _grouped(self, leg: Leg, first: int, payloads: list[bytes]) -> dict[Any, Items]:
        """Items by key: payloads where nothing comes before the key, else messages."""
        way, key_of = self._way_of(leg), leg.step.key
        assert key_of is not None
        groups: dict[Any, Items] = defaultdict(_no_items)
        if leg.ships_payloads:
            decode = way.source.decode
            for place, payload in enumerate(payloads):
                try:
                    message = decode(payload)
                except (Exception, SystemExit) as error:
                    origin = Origin(None, first + place)
                    self._results.failed(way, _decoder(way), payload, error, origin)
                    continue
                if message is None:
                    continue
                try:
                    groups[key_of(message)][0].append(payload)
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results, first + place)
        else:
            made = self._made(way, first, payloads)
            for place, message in enumerate(made.items):
                try:
                    items, arrivals = groups[key_of(message)]
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results, made.arrival(place))
                    continue
                items.append(message)
                arrivals.append(made.arrival(place))
            self._serialize(leg, groups)
        return self._listed(leg, groups)

    def _serialize(self, leg: Leg, groups: dict[Any, Items]) -> None:
        serialization = self._program.application.serialization
        if serialization is not None:
            for key, (items, arrivals) in groups.items():
                messages = Messages(items, arrivals.__getitem__)
                made = applied(leg, leg.step, serialization.serialize, messages, self._results)
                places = range(len(made.items))
                groups[key] = (list(made.items), [made.arrival(place) for place in places])

    def _way_of(self, leg: Leg) -> Way:
        return next(way for way in self._program.ways if way.before.leg == leg.number)

    def _listed(self, leg: Leg, groups: dict[Any, Items]) -> dict[Any, Items]:
        """*groups* without the keys that the partition does not list; those are set aside."""
        partition = self._program.partitions[leg.partition]
        if partition.keys is None or groups.keys() <= partition.keys:
            return groups
        for key in groups.keys() - partition.keys:
            for item, origin in origins(leg, key, *groups.pop(key)):
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
        try:
            return packed_group(group)
        except Exception:
            return packed_group(self._only_packable(group))

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


def _decoder(way: Way) -> Named:
    return NamedStep("decoder", way.source.place)


def _computations(way: Way) -> list[Compute]:
    return [step for step in way.before.steps if isinstance(step, Compute)]


def _append(runs_of_key: dict[Any, Runs], leg: int, groups: dict[Any, Items]) -> None:
    """Put *groups*, which arrived after all that is in *runs_of_key*, behind it."""
    for key, (items, arrivals) in groups.items():
        runs = runs_of_key.get(key)
        if runs is None:
            runs_of_key[key] = [(leg, items, arrivals)]
        elif runs[-1][0] == leg:
            runs[-1][1].extend(items)
            runs[-1][2].extend(arrivals)
        else:
            runs.append((leg, items, arrivals))


def _no_items() -> Items:
    return [], []
