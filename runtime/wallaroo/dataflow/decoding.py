"""The first stage: from frames to messages for the buckets of their keys.

What crosses the exchange is a snapshot of a message or, if its decoder is declared repeatable and
no step comes before the key, its payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from time import perf_counter
from typing import Any

from wallaroo.dataflow.current_input import CurrentInput
from wallaroo.dataflow.current_message import (
    Arrivals,
    Processing,
    knows_message,
    packed_arrivals,
)
from wallaroo.dataflow.exchange import Exchange
from wallaroo.dataflow.message_snapshots import PLAIN
from wallaroo.dataflow.outgoing_messages import Outgoing
from wallaroo.dataflow.packing import TICK
from wallaroo.dataflow.paths import SAMPLE, At, Path, Paths, key_failed
from wallaroo.dataflow.program import OperatorChain, Program, SourcePath, StatefulStage
from wallaroo.dataflow.results import NamedStep, Origin, TaskResults
from wallaroo.dataflow.rows import Keyed
from wallaroo.model.application import Stateful
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.records import TICK_SOURCE, Block, Packed

_DECODER = "decoder"
"""Name of the decoder in metrics; includes extracting the key if that follows immediately."""


@time_limited
class Router:
    """The first stage of a program, over blocks of the journal.

    Messages for stages with an implicit order go through an `Exchange`; the others are stamped.

    Args:
        program: The program.
        results: Collects the outputs of pipelines without stateful steps, and failed messages.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._current = CurrentInput()
        self._processing = Processing()
        self._outgoing = Outgoing(program, results, self._current, fresh=True)
        self._take = program.carrier.take
        self._fixed = PLAIN if program.carrier.restore is None else frozenset[type]()
        """Classes whose objects are their own snapshots."""
        self._fixed_tuples: set[type] = set()
        """Classes of tuples that are their own snapshots if all items are."""
        self._paths = Paths(program, results, self._arrival, self._current, fresh=True)
        self._collected: list[tuple[StatefulStage, Keyed]] = []
        """Messages that arrive individually and wait for the exchange."""
        self._decoders = [
            self._current.decoding(source_path.source)
            if source_path.chain.keeps
            else source_path.source.decode
            for source_path in program.source_paths
        ]
        self._stamped = [
            self._leads_to_stamps(source_path.chain) for source_path in program.source_paths
        ]
        self._path_of = [
            self._paths.of(source_path.chain, stamped=stamped)
            for source_path, stamped in zip(program.source_paths, self._stamped, strict=True)
        ]

    def route(self, blocks: Iterable[Block]) -> list[Packed]:
        """Run the first stage over *blocks*.

        Returns:
            Packed messages by level and bucket, for `StateRunner.run`.
        """
        self._processing.begin()
        arrivals: Arrivals = []
        self._processing.arrivals = arrivals
        exchange = Exchange(self._program, self._results)
        arrived: list[tuple[int, int, int]] = []
        for block in blocks:
            for first, millisecond in block.arrivals():
                if not arrivals or arrivals[-1][1] != millisecond:
                    arrivals.append((first, millisecond))
            if block.source == TICK_SOURCE:
                held = chain.from_iterable(block.held)
                stamp = (block.first, block.arrived_ns, *held)
                self._outgoing.add_tick((stamp, TICK, None, None))
                continue
            arrived.append((block.source, block.arrived_ns, block.messages))
            source_paths = self._program.paths_of_source[block.source]
            payloads = source_paths[0].source.framing.split(block.data)
            for source_path in source_paths:
                if (
                    source_path.chain.stage is None
                    or source_path.chain.steps
                    or self._stamped[source_path.number]
                ):
                    self._run(source_path, block, payloads)
                else:
                    stage = self._program.stages[source_path.chain.stage]
                    exchange.add(stage, self._keyed(source_path, stage, block.first, payloads))
            self._current.kept = None
            for stage, collected in self._collected:
                if collected.keys:
                    exchange.add(stage, collected)
                    for column in collected:
                        column.clear()
        self._paths.finish()
        self._paths.count()
        self._results.settle()
        self._results.metrics.add_arrivals(arrived)
        packed = packed_arrivals(arrivals)
        return exchange.packed(packed) + self._outgoing.packed(packed)

    @knows_message("at", owner="source_path", step="belongs_to")
    @runs_step("source_path", "step")
    def _run(self, source_path: SourcePath, block: Block, payloads: list[bytes]) -> None:
        """Process each message in *payloads* to completion."""
        path, decode = self._path_of[source_path.number], self._decoders[source_path.number]
        stamped = self._stamped[source_path.number]
        step, metrics = (
            _decoder(source_path),
            self._results.metrics.step(source_path.pipeline, _DECODER),
        )
        belongs_to = self._step_of_decoder(source_path)  # noqa: F841 - see `knows_message`
        at: At
        left, held_ns = 0, dict(block.held).get(block.source, 0)
        before = block.first - metrics.entered
        for arrival, payload in enumerate(payloads, block.first):
            at = (arrival, block.arrived_ns, held_ns, source_path.number) if stamped else arrival
            began = 0.0 if (arrival - before) % SAMPLE else perf_counter()
            try:
                message = decode(payload)
            except (Exception, SystemExit) as error:
                shown, origin = source_path.source.shown(payload), Origin(None, arrival)
                self._results.failed(source_path, step, shown, error, origin)
                continue
            if began:
                metrics.time(began)
            if message is not None:
                left += 1
                path(at, None, message)
        metrics.add(len(payloads), left)

    @knows_message("arrival", owner="stage")
    @runs_step("stage")
    def _keyed(
        self, source_path: SourcePath, stage: StatefulStage, first: int, payloads: list[bytes]
    ) -> Keyed:
        """Decode, extract keys and take snapshots in one loop, if no step comes between them."""
        key_of, decode, take = stage.step.key, self._decoders[source_path.number], self._take
        assert key_of is not None
        keys: list[Any] = []
        items: list[Any] = []
        arrivals: list[Any] = self._current.collecting_offsets() if stage.keeps else []
        # inlined, because calls would double the cost of the loop
        fixed, tuples, are_plain = self._fixed, self._fixed_tuples, PLAIN.issuperset
        custom = self._program.carrier.restore is not None
        repeats = stage.number in self._program.repeated
        left = 0
        began = perf_counter()
        for arrival, payload in enumerate(payloads, first):
            try:
                message = decode(payload)
            except (Exception, SystemExit) as error:
                origin = Origin(None, arrival)
                shown = source_path.source.shown(payload)
                self._results.failed(source_path, _decoder(source_path), shown, error, origin)
                continue
            if message is None:
                continue
            left += 1
            try:
                key = key_of(message)
            except (Exception, SystemExit) as error:
                key_failed(stage, message, error, self._results, Origin(None, arrival))
                continue
            kind = type(message)
            if repeats:
                message = payload
            elif kind not in fixed and not (kind in tuples and are_plain(map(type, message))):
                try:
                    message = take(message)
                except (Exception, SystemExit) as error:
                    origin = Origin(None, arrival)
                    self._results.failed(stage, stage.step, message, error, origin)
                    continue
                if type(message) is kind and kind is not tuple and not custom:
                    tuples.add(kind)
            keys.append(key)
            items.append(message)
            arrivals.append(arrival)
        seconds = perf_counter() - began
        self._results.metrics.step(source_path.pipeline, _DECODER).note(
            len(payloads), left, seconds
        )
        return Keyed(keys, items, arrivals)

    @knows_message("at", key="key", owner="stage")
    @runs_step("stage")
    def _arrival(self, stage: StatefulStage) -> Path:
        """Return the path for messages that arrive at *stage*."""
        if stage.partition in self._program.stamped:
            return self._paths.keyed_at(stage, self._outgoing.to(stage))
        offsets = self._current.collecting_offsets() if stage.keeps else []
        collected = Keyed([], [], offsets)
        self._collected.append((stage, collected))
        key_of, fixed, take = stage.step.key, self._fixed, self._take
        assert key_of is not None
        add_key, add_item = collected.keys.append, collected.items.append
        add_arrival: Callable[[Any], None] = collected.arrivals.append

        def arrived(at: At, _key: Any, message: Any) -> None:
            try:
                key = key_of(message)
            except (Exception, SystemExit) as error:
                key_failed(stage, message, error, self._results, self._paths.origin(at))
                return
            if type(message) not in fixed:
                try:
                    message = take(message)
                except (Exception, SystemExit) as error:
                    self._paths.failed(stage, stage.step, message, error, at)
                    return
            add_key(key)
            add_item(message)
            add_arrival(at)

        return arrived

    def _step_of_decoder(self, source_path: SourcePath) -> Stateful | None:
        """The step to which calls of the decoder belong: that of `_keyed`, if it may run them."""
        stage = source_path.chain.stage
        if stage is None or source_path.chain.steps:
            return None
        return self._program.stages[stage].step

    def _leads_to_stamps(self, chain: OperatorChain) -> bool:
        if chain.stage is not None:
            return self._program.stages[chain.stage].partition in self._program.stamped
        return any(map(self._leads_to_stamps, chain.forks))


def _decoder(source_path: SourcePath) -> NamedStep:
    return NamedStep(_DECODER, source_path.source.place)
