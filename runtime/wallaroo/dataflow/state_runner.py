"""The levels after the first stage: state computations and windows, in order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from time import perf_counter
from typing import Any

from wallaroo.dataflow.buckets import Bucket, Changes, Unloadable
from wallaroo.dataflow.clocks import Clocks
from wallaroo.dataflow.current_input import CurrentInput
from wallaroo.dataflow.current_message import (
    Processing,
    joined_arrivals,
    knows_message,
)
from wallaroo.dataflow.hot_keys import HotKeys
from wallaroo.dataflow.message_snapshots import Lost
from wallaroo.dataflow.outgoing_messages import Outgoing
from wallaroo.dataflow.packing import (
    TICK,
    Stamp,
    Stamped,
    holds_items,
    unpacked_items,
    unpacked_rows,
)
from wallaroo.dataflow.paths import At, Path, Paths
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults
from wallaroo.dataflow.savable import SkippedCall
from wallaroo.dataflow.spilled_entities import SpilledEntities
from wallaroo.dataflow.steps.multiple_outputs import pair_of
from wallaroo.dataflow.timed_states import TimedStates
from wallaroo.dataflow.timers import Timers
from wallaroo.dataflow.window_states import WindowStates
from wallaroo.model.application import StateCompute, WindowCompute
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.records import Packed, bounded_ns

_MISSING = object()
_TIMED_RUNS = 16
"""One in this number of runs of messages through a state computation is timed."""


@time_limited
class StateRunner:
    """Runs one level of a program, over one bucket at a time.

    Args:
        program: The program.
        results: Collects outputs and failed messages.
        level: The level.
    """

    def __init__(self, program: Program, results: TaskResults, level: int = 1) -> None:
        self._program = program
        self._results = results
        self._level = level
        self._timed = [n for n in program.partitions_at(level) if n in program.timed]
        self._current = CurrentInput()
        self._outgoing = Outgoing(program, results, self._current, fresh=False)
        self._paths = Paths(program, results, self._arrival, self._current, fresh=False, here=level)
        self._after = {
            stage.number: self._paths.of(stage.after, stamped=stage.partition in program.stamped)
            for stage in program.stages
            if program.levels.level(stage.partition) == level
        }
        """The path of outputs, by number of the stage."""
        late = {
            stage.number: self._paths.of(stage.late, stamped=True)
            for stage in program.stages
            if stage.late is not None and program.levels.level(stage.partition) == level
        }
        self._clocks = Clocks(program)
        self._windows = WindowStates(
            program, results, level, self._after, late, self._entity, self._clocks
        )
        of_timers = {
            number: self._current.without(path) if program.stages[number].keeps else path
            for number, path in self._after.items()
        }
        self._timed_states = TimedStates(
            program, results, level, self._after, of_timers, self._entity, self._clocks
        )
        self._metrics = [
            results.metrics.step(stage.pipeline, stage.step.name) for stage in program.stages
        ]
        """Metrics by number of the stage."""
        self._names = {n: program.partitions[n].name for n in program.partitions_at(level)}
        self._hot = HotKeys(self._names, results.metrics)
        self._restores = [program.restores(stage) for stage in program.stages]
        """Functions that restore messages, by number of the stage; None if unnecessary."""
        self._runs = [-1] * len(program.stages)
        """Runs of messages so far, by number of the stage."""
        self._processing, self._arrivals = Processing(), set[bytes]()

    def run(self, packed: Iterable[bytes], bucket: int, state: Bucket) -> Changes:
        """Process the messages for a bucket, in order of arrival.

        Args:
            packed: Packed messages from routers and from workers of earlier levels.
            bucket: Number of the bucket.
            state: The bucket in memory, which is modified.
        """
        self._processing.begin()
        self._state, self._timers = state, self._timers_of(state)
        self._expiries = state.expiries or Timers()
        self._changes = Changes.none(len(state.entities))
        self._windows.begin(bucket, state, self._timers, self._changes)
        self._timed_states.begin(bucket, state, self._timers, self._expiries, self._changes)
        stamped: list[Stamped] = []
        arrivals = set[bytes]()
        for blob in packed:
            if holds_items(blob):
                items, arrived = unpacked_items(blob)
                stamped += items
                arrivals.add(arrived)
            else:
                self._run_rows(blob)
        if stamped:
            stamped.sort(key=_stamp_of)
            self._processing.arrivals = self._arrivals = arrivals
            if state.spills:
                stages = self._program.stages
                state.prefetch((stages[n].partition, key) for _, n, key, _ in stamped if n != TICK)
            for item in self._current.each(stamped) if self._program.keeps else stamped:
                self._run_item(item)
            self._windows.end(stamped[-1][0])
        self._paths.finish()
        self._paths.count()
        self._results.settle()
        self._hot.report()
        if self._timed:
            tally, at = self._results.tally, (self._level, bucket)
            tally.due[at], tally.expiries[at] = (
                None if (due := timers.next_ns()) is None else bounded_ns(due)
                for timers in (self._timers, self._expiries)
            )
            self._windows.report(self._timed)
        return self._changes

    def sent(self) -> list[Packed]:
        """Return the packed messages for later levels and clear them."""
        return self._outgoing.packed(joined_arrivals(self._arrivals))

    def _run_rows(self, blob: bytes) -> None:
        rows, arrived = unpacked_rows(blob)
        self._processing.arrivals = arrived
        for number, stage_number, keys, items, arrivals in rows:
            # in bulk, because a loop would wait for the processor's cache at each entity
            state = self._state.entities[number]
            if isinstance(state, SpilledEntities):
                entities = state.get_all(keys, _MISSING)
            else:
                entities = list(map(state.get, keys, repeat(_MISSING)))
            stage = self._program.stages[stage_number]
            offsets = self._current.offsets(arrivals) if stage.keeps else arrivals
            self._compute(stage, keys, entities, items, offsets)
            self._hot.add(number, keys)
            self._results.settle()

    def _entity(self, number: int, key: Any) -> Any:
        """Return the entity of *key*, creating it if necessary.

        Raises:
            Unloadable: The entity exists but could not be loaded.
            Exception: Creating it raised.
        """
        entities = self._state.entities[number]
        entity = entities.get(key, _MISSING)
        if entity is _MISSING:
            if (number, key) in self._state.unloaded:
                raise Unloadable(self._state.unloaded[number, key])
            entity = entities[key] = self._program.partitions[number].new_entity()
        return entity

    @knows_message("stamp", "arrival", key="key", owner="stage", state_key="key")
    @runs_step("stage")
    def _compute(  # noqa: PLR0912 - the innermost loop, where calls would be expensive
        self,
        stage: StatefulStage,
        keys: Iterable[Any],
        entities: Iterable[Any],
        items: Sequence[Any],
        arrivals: Iterable[int | None],
        stamp: Stamp | None = None,
    ) -> None:
        """Run a state computation over *items* with the entities of their keys.

        Each message is processed to completion before the next.
        """
        step, then, metrics = stage.step, self._after[stage.number], self._metrics[stage.number]
        assert isinstance(step, StateCompute)
        function, multi, returns_save = step.function, step.multi, step.returns_save
        restore = self._restores[stage.number] if stamp is None else None
        changed = self._changes.changed[stage.partition]
        save, changing, left = True, None, 0
        self._runs[stage.number] += 1
        timed = not self._runs[stage.number] % _TIMED_RUNS
        for key, entity, item, arrival in zip(keys, entities, items, arrivals, strict=True):
            message = item
            began = perf_counter() if timed else 0.0
            try:
                if restore is not None:
                    message = restore(item)
                elif type(item) is Lost:
                    item.fail()
                if entity is _MISSING:
                    entity = self._entity(stage.partition, key)  # noqa: PLW2901
                result = function(message, entity)
                if returns_save:
                    if type(result) is not tuple or len(result) != 2:  # noqa: PLR2004
                        result = pair_of(result)
                    result, save = result
                if multi and result is not None:
                    # evaluated completely first: if it raises, the step emits nothing
                    result = [output for output in result if output is not None]
            except (Exception, SystemExit) as error:
                if entity is not _MISSING and not isinstance(error, SkippedCall):
                    changed[key] = entity  # may have been changed before the exception
                origin = Origin.of(key, arrival)
                self._results.failed(stage, step, message, error, origin)
                continue
            if timed:
                metrics.time(began)
            if save and entity is not changing:
                changed[key] = changing = entity
            if result is None:
                continue
            if not multi:
                left += 1
                then(stamp, key, result)
                continue
            left += len(result)
            for number, output in enumerate(result):
                then(stamp and (*stamp, number), key, output)
        metrics.add(len(items), left)

    @knows_message("stamp", key="key", owner="stage")
    @runs_step("stage")
    def _run_item(self, item: Stamped) -> None:
        stamp, number, key, message = item
        if number == TICK:
            self._tick(stamp[:2], dict(zip(stamp[2::2], stamp[3::2], strict=True)))
            return
        stage = self._program.stages[number]
        try:
            if type(message) is Lost:
                message.fail()
            restore = self._program.carrier.restore
            if restore is not None:
                message = restore(message)
        except (Exception, SystemExit) as error:
            self._results.failed(stage, stage.step, message, error, Origin.at(stage, stamp, key))
            return
        self._take(stage, stamp, key, message)

    @knows_message("at", key="key", owner="stage")
    def _arrival(self, stage: StatefulStage) -> Path:
        """Return the path for messages that arrive at *stage* from a state of this level."""

        def arrived(at: At, key: Any, message: Any) -> None:
            assert isinstance(at, tuple)
            try:
                message = self._program.carrier.copied(message)  # as if sent
            except (Exception, SystemExit) as error:
                self._results.failed(stage, stage.step, message, error, Origin.at(stage, at, key))
                return
            self._take(stage, at, key, message)

        same_level = self._program.levels.level(stage.partition) == self._level
        return self._paths.keyed_at(stage, arrived if same_level else self._outgoing.to(stage))

    def _take(self, stage: StatefulStage, stamp: Stamp, key: Any, message: Any) -> None:
        """Run *message* through the step of *stage*, and its outputs through what follows."""
        self._hot.add(stage.partition, (key,))
        if isinstance(stage.step, WindowCompute):
            self._windows.take(stage, stage.step, stamp, key, message)
            return
        if self._timed_states.contains(stage.partition):
            self._timed_states.take(stage, stamp, key, message)
            return
        entity = self._state.entities[stage.partition].get(key, _MISSING)
        arrival = stamp[0] if stage.fresh else None
        self._compute(stage, (key,), (entity,), (message,), (arrival,), stamp)

    def _tick(self, tick: Stamp, held: Mapping[int, int]) -> None:
        """Close the windows, call the timers, and free the entities, that are due."""
        self._windows.note_touched()
        at = {number: self._clocks.tick(number, tick, held) for number in self._timed}
        for number, key in self._expiries.take_due(tick[1]):
            stamp, now_ns = at[number]
            self._timed_states.tick(stamp, number, key, now_ns)
        due = self._timers.take_due(tick[1])
        if due and self._state.spills:
            self._state.prefetch(due)
        for order, (number, key) in enumerate(due):
            stamp, now_ns = at[number]
            if self._timed_states.contains(number):
                self._timed_states.tick(stamp, number, key, now_ns)
            else:
                self._windows.tick(stamp, number, key, order, now_ns)

    def note_entities(self, bucket: int, state: Bucket) -> None:
        """Add the number of entities of *bucket* to the metrics."""
        for number, name in self._names.items():
            self._results.metrics.entities[name, bucket] = len(state.entities[number])

    def _timers_of(self, state: Bucket) -> Timers:
        if state.timers is None:
            state.timers, state.expiries = Timers(), Timers()
            self._windows.set_all(state, state.timers)
            self._timed_states.set_all(state, state.timers, state.expiries)
        return state.timers


def _stamp_of(item: Stamped) -> Stamp:
    stamp: Stamp = item[0]
    return stamp
