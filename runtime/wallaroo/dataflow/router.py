"""The first stage: from frames to messages for the buckets of their keys.

A message is decoded once; what crosses the exchange is a snapshot of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

from wallaroo.dataflow.exchange import Exchange
from wallaroo.dataflow.outgoing import Outgoing
from wallaroo.dataflow.packing import TICK, Packed
from wallaroo.dataflow.paths import SAMPLE, At, Path, Paths, key_failed
from wallaroo.dataflow.program import OperatorChain, Program, SourcePath, StatefulStage
from wallaroo.dataflow.records import TICK_SOURCE, Chunk
from wallaroo.dataflow.results import NamedStep, Origin, TaskResults
from wallaroo.dataflow.rows import Keyed
from wallaroo.dataflow.snapshots import PLAIN
from wallaroo.model.callers import runs_step, time_limited

_DECODER = "decoder"
"""Name of the step that a decoder is; where nothing comes between, finding the key counts to it."""


@time_limited
class Router:
    """The first stage of a program, over chunks of the journal.

    Messages for legs whose order shows by itself go through an `Exchange`; the others are stamped.

    Args:
        program: What to run.
        results: Takes the outputs of pipelines without a stateful step, and what is set aside.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._outgoing = Outgoing(program, results, fresh=True)
        self._take = program.carrier.take
        self._fixed = PLAIN if program.carrier.restore is None else frozenset[type]()
        """Classes of messages that are their own snapshots."""
        self._fixed_tuples: set[type] = set()
        """Classes of those that are if what they hold is of such classes."""
        self._paths = Paths(program, results, self._arrival, fresh=True)
        self._collected: dict[int, _Collected] = {}
        """By number of the leg: what has come there, and waits for the exchange."""
        self._stamped = [self._leads_to_stamps(way.before) for way in program.ways]
        self._path_of = [
            self._paths.of(way.before, stamped=stamped)
            for way, stamped in zip(program.ways, self._stamped, strict=True)
        ]

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
                if way.before.leg is None or way.before.steps or self._stamped[way.number]:
                    self._run(way, chunk, payloads)
                else:
                    leg = self._program.legs[way.before.leg]
                    exchange.add(leg, self._keyed(way, leg, chunk.first, payloads))
            for collected in self._collected.values():
                if collected.keys:
                    exchange.add(collected.leg, collected.taken())
        self._paths.count()
        self._results.settle()
        self._results.figures.add_arrivals(arrived)
        return exchange.packed() + self._outgoing.packed()

    @runs_step("way", "step")
    def _run(self, way: SourcePath, chunk: Chunk, payloads: list[bytes]) -> None:
        """Take each message of *payloads* through all that it leads to."""
        path, decode = self._path_of[way.number], way.source.decode
        stamped = self._stamped[way.number]
        step, figures = _decoder(way), self._results.figures.step(way.pipeline, _DECODER)
        at: At
        left = 0
        for arrival, payload in enumerate(payloads, chunk.first):
            at = (arrival, chunk.arrived_ns, way.number) if stamped else arrival
            began = 0.0 if arrival % SAMPLE else perf_counter()
            try:
                message = decode(payload)
            except (Exception, SystemExit) as error:
                self._results.failed(way, step, payload, error, Origin(None, arrival))
                continue
            if began:
                figures.time(began)
            if message is not None:
                left += 1
                path(at, None, message)
        figures.add(len(payloads), left)

    @runs_step("leg")
    def _keyed(
        self, way: SourcePath, leg: StatefulStage, first: int, payloads: list[bytes]
    ) -> Keyed:
        """Snapshots with their keys, where nothing comes between decoder and key: in one loop."""
        key_of, decode, take = leg.step.key, way.source.decode, self._take
        assert key_of is not None
        keys: list[Any] = []
        items: list[Any] = []
        arrivals: list[int] = []
        # in the loop itself, for a call would cost as much again
        fixed, tuples, are_plain = self._fixed, self._fixed_tuples, PLAIN.issuperset
        own = self._program.carrier.restore is not None
        repeats = leg.number in self._program.repeated
        left = 0
        began = perf_counter()
        for arrival, payload in enumerate(payloads, first):
            try:
                message = decode(payload)
            except (Exception, SystemExit) as error:
                origin = Origin(None, arrival)
                self._results.failed(way, _decoder(way), payload, error, origin)
                continue
            if message is None:
                continue
            left += 1
            try:
                key = key_of(message)
            except (Exception, SystemExit) as error:
                key_failed(leg, message, error, self._results, Origin(None, arrival))
                continue
            kind = type(message)
            if repeats:
                message = payload
            elif kind not in fixed and not (kind in tuples and are_plain(map(type, message))):
                try:
                    message = take(message)
                except (Exception, SystemExit) as error:
                    origin = Origin(None, arrival)
                    self._results.failed(leg, leg.step, message, error, origin)
                    continue
                if type(message) is kind and kind is not tuple and not own:
                    tuples.add(kind)
            keys.append(key)
            items.append(message)
            arrivals.append(arrival)
        seconds = perf_counter() - began
        self._results.figures.step(way.pipeline, _DECODER).note(len(payloads), left, seconds)
        return Keyed(keys, items, arrivals)

    @runs_step("leg")
    def _arrival(self, leg: StatefulStage) -> Path:
        """What takes messages that have come to *leg*."""
        if leg.partition in self._program.stamped:
            outgoing = self._outgoing

            def stamped(at: At, key: Any, message: Any) -> None:
                assert isinstance(at, tuple)
                outgoing.add(leg, at, key, message)

            return self._paths.keyed_at(leg, stamped)
        collected = self._collected[leg.number] = _Collected(leg)
        key_of, fixed, take = leg.step.key, self._fixed, self._take
        assert key_of is not None
        add_key, add_item = collected.keys.append, collected.items.append
        add_arrival = collected.arrivals.append

        def arrived(at: At, _key: Any, message: Any) -> None:
            try:
                key = key_of(message)
            except (Exception, SystemExit) as error:
                key_failed(leg, message, error, self._results, self._paths.origin(at))
                return
            if type(message) not in fixed:
                try:
                    message = take(message)
                except (Exception, SystemExit) as error:
                    self._paths.failed(leg, leg.step, message, error, at)
                    return
            add_key(key)
            add_item(message)
            add_arrival(at)

        return arrived

    def _leads_to_stamps(self, stretch: OperatorChain) -> bool:
        if stretch.leg is not None:
            return self._program.legs[stretch.leg].partition in self._program.stamped
        return any(map(self._leads_to_stamps, stretch.forks))


class _Collected:
    """Messages that have come to a leg, one by one."""

    def __init__(self, leg: StatefulStage) -> None:
        self.leg = leg
        self.keys: list[Any] = []
        self.items: list[Any] = []
        self.arrivals: list[Any] = []

    def taken(self) -> Keyed:
        """All of them; none is left here."""
        taken = Keyed(self.keys.copy(), self.items.copy(), self.arrivals.copy())
        self.keys.clear()
        self.items.clear()
        self.arrivals.clear()
        return taken


def _decoder(way: SourcePath) -> NamedStep:
    return NamedStep(_DECODER, way.source.place)
