"""The first stage: from frames to messages for the buckets of their keys.

Where no stateless step comes before the key, the payloads themselves cross the exchange and are
decoded once more behind it: that costs a tenth of pickling the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

from wallaroo.engine.exchange import Exchange
from wallaroo.engine.figures import StepFigures
from wallaroo.engine.flow import Flow, Outgoing, key_failed
from wallaroo.engine.packing import TICK, Packed
from wallaroo.engine.ports import TICK_SOURCE, Chunk
from wallaroo.engine.program import Leg, Program, Way
from wallaroo.engine.results import Named, NamedStep, Origin, TaskResults
from wallaroo.engine.rows import Keyed
from wallaroo.engine.steps import Messages, applied, emit, through
from wallaroo.model.application import Compute

_DECODER = "decoder"
"""Name of the step that a decoder is; where payloads cross, finding the key counts to it."""


class Router:
    """The first stage of a program, over chunks of the journal.

    Messages of ways whose order shows by itself go through an `Exchange`; the others are stamped,
    and go through `Flow`.

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
        exchange = Exchange(self._program, self._results)
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
                    exchange.add(leg, self._keyed(leg, chunk.first, payloads))
        self._flow.finish()
        self._results.figures.add_arrivals(arrived)
        return exchange.packed() + self._outgoing.packed()

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

    def _keyed(self, leg: Leg, first: int, payloads: list[bytes]) -> Keyed:
        """Items with their keys: payloads where nothing comes before the key, else messages."""
        way, key_of = self._way_of(leg), leg.step.key
        assert key_of is not None
        keys: list[Any] = []
        add = keys.append
        lost: set[int] = set()
        if leg.ships_payloads:
            decode, unkeyed = way.source.decode, 0
            began = perf_counter()
            for place, payload in enumerate(payloads):
                try:
                    message = decode(payload)
                except (Exception, SystemExit) as error:
                    origin = Origin(None, first + place)
                    self._results.failed(way, _decoder(way), payload, error, origin)
                    message = None
                if message is None:
                    lost.add(place)
                    continue
                try:
                    add(key_of(message))
                except (Exception, SystemExit) as error:
                    key_failed(leg, message, error, self._results, first + place)
                    lost.add(place)
                    unkeyed += 1
            seconds = perf_counter() - began
            self._figures(way).note(len(payloads), len(keys) + unkeyed, seconds)
            return Keyed(keys, payloads, range(first, first + len(payloads))).without(lost)
        made = self._made(way, first, payloads)
        for place, message in enumerate(made.items):
            try:
                add(key_of(message))
            except (Exception, SystemExit) as error:
                key_failed(leg, message, error, self._results, made.arrivals[place])
                lost.add(place)
        return Keyed(keys, made.items, made.arrivals).without(lost)

    def _figures(self, way: Way) -> StepFigures:
        return self._results.figures.step(way.pipeline, _DECODER)

    def _way_of(self, leg: Leg) -> Way:
        return next(way for way in self._program.ways if way.before.leg == leg.number)


def _decoder(way: Way) -> Named:
    return NamedStep(_DECODER, way.source.place)


def _computations(way: Way) -> list[Compute]:
    return [step for step in way.before.steps if isinstance(step, Compute)]
