"""The levels behind the first stage: state computations and windows, in order of arrival."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from time import perf_counter
from typing import Any

from wallaroo.dataflow.entities import Bucket, Changes, Unloadable
from wallaroo.dataflow.outgoing import Outgoing
from wallaroo.dataflow.packing import (
    TICK,
    Packed,
    Stamp,
    Stamped,
    holds_items,
    holds_rows,
    unpacked_group,
    unpacked_items,
    unpacked_rows,
)
from wallaroo.dataflow.paths import SAMPLE, At, Path, Paths
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults, shown
from wallaroo.dataflow.snapshots import Lost
from wallaroo.dataflow.timers import Timers
from wallaroo.model.application import StateCompute, WindowCompute
from wallaroo.model.callers import runs_step, time_limited
from wallaroo.model.multiple_outputs import pair_of
from wallaroo.model.savable import Refused
from wallaroo.model.windows import Late

_MISSING = object()
_TIMED_RUNS = 16
"""Of so many runs of messages through a state computation, one is timed, message by message."""
_FEW_KEYS = 64
"""In a group of at most so many keys, the messages of each are counted."""
_HOT = 16
"""In other groups, those of keys with at least so many messages; of rows, one of so many counts."""


@time_limited
class Worker:
    """One level of a program, over one bucket at a time.

    Args:
        program: What to run.
        results: Takes outputs and what is set aside.
        level: The level.
    """

    def __init__(self, program: Program, results: TaskResults, level: int = 1) -> None:
        self._program = program
        self._results = results
        self._level = level
        self._timed = [n for n in program.partitions_at(level) if n in program.timed]
        self._leg_of = {leg.partition: leg for leg in reversed(program.legs)}
        """A leg for each partition; of windows, all legs go on alike."""
        self._outgoing = Outgoing(program, results, fresh=False)
        self._paths = Paths(program, results, self._arrival, fresh=False)
        self._after = {
            leg.number: self._paths.of(leg.after, stamped=leg.partition in program.stamped)
            for leg in program.legs
            if program.levels.level(leg.partition) == level
        }
        """By number of the leg: what its outputs go through."""
        self._figures = [results.figures.step(leg.pipeline, leg.step.name) for leg in program.legs]
        """By number of the leg."""
        self._names = {n: program.partitions[n].name for n in program.partitions_at(level)}
        self._restores = [program.restores(leg) for leg in program.legs]
        """By number of the leg: what makes the messages of what was sent to it, if need be."""
        self._runs = -1

    def run(self, packed: Iterable[bytes], bucket: int, state: Bucket) -> Changes:
        """Run the level over what was sent to a bucket, in order of arrival.

        Args:
            packed: Blobs that routers, and the workers of former levels, sent to the bucket.
            bucket: The bucket.
            state: What the bucket has in memory; it is changed.
        """
        self._bucket, self._state, self._dues = bucket, state, self._dues_of(state)
        self._changes = Changes.none(len(state.entities))
        self._hot: list[dict[Any, int]] = [defaultdict(int) for _ in self._program.partitions]
        stamped: list[Stamped] = []
        for blob in packed:
            if holds_items(blob):
                stamped += unpacked_items(blob)
            elif holds_rows(blob):
                self._run_rows(blob)
            else:
                self._run_group(blob)
        if stamped:
            stamped.sort(key=_stamp_of)
            for item in stamped:
                self._run_item(item)
        self._paths.count()
        self._results.settle()
        for number, name in self._names.items():
            self._results.figures.add_hot_keys(name, self._hot[number])
        if self._timed:
            self._results.tally.due[self._level, bucket] = self._dues.next_ns()
        return self._changes

    def sent(self) -> list[Packed]:
        """What the runs so far have sent to later levels; it is forgotten here."""
        return self._outgoing.packed()

    def _run_group(self, blob: bytes) -> None:
        group = unpacked_group(blob)
        hot_from = 1 if len(group) <= _FEW_KEYS else _HOT
        for number, key, runs in group:
            entities = self._state.entities[number]
            for leg_number, items, arrivals in runs:
                if len(items) >= hot_from:
                    self._hot[number][key] += len(items)
                found = repeat(entities.get(key, _MISSING), len(items))
                leg = self._program.legs[leg_number]
                self._compute(leg, repeat(key, len(items)), found, items, arrivals)
        self._results.settle()

    def _run_rows(self, blob: bytes) -> None:
        for number, leg_number, keys, items, arrivals in unpacked_rows(blob):
            # all at once: one by one, each would wait until it is in the processor's cache
            found = list(map(self._state.entities[number].get, keys, repeat(_MISSING)))
            self._compute(self._program.legs[leg_number], keys, found, items, arrivals)
            every = 1 if len(keys) <= _FEW_KEYS * _HOT else _HOT
            for key, count in Counter(keys[::every]).items():
                if count > 1 or every == 1:
                    self._hot[number][key] += count * every
            self._results.settle()

    def _entity(self, number: int, key: Any) -> Any:
        """The entity of *key*, made if need be.

        Raises:
            Unloadable: There is one, which could not be loaded.
            Exception: User code raised when it was to be made.
        """
        entities = self._state.entities[number]
        entity = entities.get(key, _MISSING)
        if entity is _MISSING:
            if (number, key) in self._state.unloaded:
                raise Unloadable(self._state.unloaded[number, key])
            entity = entities[key] = self._program.partitions[number].new_entity()
        return entity

    @runs_step("leg")
    def _compute(  # noqa: PLR0912 - the innermost loop: a call for each part would cost
        self,
        leg: StatefulStage,
        keys: Iterable[Any],
        entities: Iterable[Any],
        items: Sequence[Any],
        arrivals: Sequence[int | None],
        stamp: Stamp | None = None,
    ) -> None:
        """Run a state computation over *items*, each over the entity of its key.

        What it gives for a message goes through all that it leads to before the next message.
        """
        step, then, figures = leg.step, self._after[leg.number], self._figures[leg.number]
        assert isinstance(step, StateCompute)
        function, multi, returns_save = step.function, step.multi, step.returns_save
        restore = self._restores[leg.number] if stamp is None else None
        changed = self._changes.changed[leg.partition]
        save, changing, left = True, None, 0
        self._runs += 1
        timed = not self._runs % _TIMED_RUNS
        for key, entity, item, arrival in zip(keys, entities, items, arrivals, strict=True):
            message = item
            began = perf_counter() if timed else 0.0
            try:
                if entity is _MISSING:
                    entity = self._entity(leg.partition, key)  # noqa: PLW2901
                if restore is not None:
                    message = restore(item)
                elif type(item) is Lost:
                    item.fail()
                result = function(message, entity)
                if returns_save:
                    if type(result) is not tuple or len(result) != 2:  # noqa: PLR2004
                        result = pair_of(result)
                    result, save = result
                if multi and result is not None:
                    # all of them first: of a message on which it raises, nothing comes
                    result = [output for output in result if output is not None]
            except (Exception, SystemExit) as error:
                if entity is not _MISSING and not isinstance(error, Refused):
                    changed[key] = entity  # it may have changed the entity before it raised
                origin = Origin(shown(key, 100), arrival)
                self._results.failed(leg, step, message, error, origin)
                continue
            if timed:
                figures.time(began)
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
        figures.add(len(items), left)

    @runs_step("leg")
    def _run_item(self, item: Stamped) -> None:
        stamp, number, key, message = item
        if number == TICK:
            self._tick(stamp)
            return
        leg = self._program.legs[number]
        try:
            if type(message) is Lost:
                message.fail()
            restore = self._program.carrier.restore
            if restore is not None:
                message = restore(message)
        except (Exception, SystemExit) as error:
            self._results.failed(leg, leg.step, message, error, _origin(leg, stamp, key))
            return
        self._take(leg, stamp, key, message)

    def _arrival(self, leg: StatefulStage) -> Path:
        """What takes messages that have come to *leg* from a state of this level."""
        outgoing = self._outgoing

        def sent(at: At, key: Any, message: Any) -> None:
            assert isinstance(at, tuple)
            outgoing.add(leg, at, key, message)

        def arrived(at: At, key: Any, message: Any) -> None:
            assert isinstance(at, tuple)
            try:
                message = self._program.carrier.copied(message)  # as if it had been sent
            except (Exception, SystemExit) as error:
                self._results.failed(leg, leg.step, message, error, _origin(leg, at, key))
                return
            self._take(leg, at, key, message)

        here = self._program.levels.level(leg.partition) == self._level
        return self._paths.keyed_at(leg, arrived if here else sent)

    def _take(self, leg: StatefulStage, stamp: Stamp, key: Any, message: Any) -> None:
        """Run *message* through the step of *leg*, and what becomes of it through the rest."""
        self._hot[leg.partition][key] += 1
        if isinstance(leg.step, WindowCompute):
            self._gather(leg, leg.step, stamp, key, message)
            return
        entity = self._state.entities[leg.partition].get(key, _MISSING)
        arrival = stamp[0] if leg.fresh else None
        self._compute(leg, (key,), (entity,), (message,), (arrival,), stamp)

    def _gather(
        self, leg: StatefulStage, step: WindowCompute, stamp: Stamp, key: Any, message: Any
    ) -> None:
        """Run *message* through windows."""
        figures, failed = self._figures[leg.number], partial(self._results.failed, leg, step)
        outputs: list[Any] = []
        began = 0.0 if figures.entered % SAMPLE else perf_counter()
        figures.entered += 1
        try:
            entity = self._entity(leg.partition, key)
        except (Exception, SystemExit) as error:
            self._results.failed(leg, step, message, error, _origin(leg, stamp, key))
            return
        try:
            outputs += step.windows.take(entity, key, message, stamp[1], failed)
        except Late:
            self._results.tally.add_late(leg.pipeline, step.name)
        except (Exception, SystemExit) as error:
            self._results.failed(leg, step, message, error, _origin(leg, stamp, key))
        self._note(leg.partition, step, key, entity)
        if began:
            figures.timed += 1
            figures.seconds += perf_counter() - began
        figures.left += len(outputs)
        after = self._after[leg.number]
        for number, output in enumerate(outputs):
            after((*stamp, number), key, output)

    @runs_step("leg")
    def _tick(self, stamp: Stamp) -> None:
        """Close the windows that the clock closes."""
        now = stamp[1]
        for order, (number, key) in enumerate(self._dues.take_due(now)):
            leg = self._leg_of[number]
            step, entity = leg.step, self._state.entities[number].get(key)
            assert isinstance(step, WindowCompute)
            if entity is None:
                continue
            failed = partial(self._results.failed, leg, step)
            outputs = step.windows.tick(entity, key, now, failed)
            self._note(number, step, key, entity)
            self._figures[leg.number].left += len(outputs)
            for place, output in enumerate(outputs):
                self._after[leg.number](
                    (*stamp, leg.number, self._bucket, order, place), key, output
                )

    def note_state(self, bucket: int, state: Bucket) -> None:
        """Count what *bucket* has in memory, for the figures."""
        figures = self._results.figures
        for number, name in self._names.items():
            figures.entities[name, bucket] = len(state.entities[number])
        figures.log_bytes[", ".join(self._names.values()), bucket] = state.head.log_bytes

    def _note(self, number: int, step: WindowCompute, key: Any, entity: Any) -> None:
        """Note what happened to the windows of *key*."""
        if step.windows.is_disposable(entity):
            self._dues.forget(number, key)
            self._state.entities[number].pop(key, None)
            self._changes.changed[number].pop(key, None)
            self._changes.forgotten[number].add(key)
        else:
            self._dues.set(number, key, step.windows.due_ns(entity))
            self._changes.changed[number][key] = entity

    def _dues_of(self, state: Bucket) -> Timers:
        if state.dues is None:
            state.dues = Timers()
            for number in self._timed:
                windows = self._program.partitions[number].windows
                assert windows is not None
                for key, entity in state.entities[number].items():
                    state.dues.set(number, key, windows.due_ns(entity))
        return state.dues


def _origin(leg: StatefulStage, stamp: Stamp, key: Any) -> Origin:
    """Where a message at *leg* comes from."""
    return Origin(shown(key, 100), stamp[0] if leg.fresh else None)


def _stamp_of(item: Stamped) -> Stamp:
    return item[0]
