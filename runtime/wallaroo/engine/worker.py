"""The levels behind the first stage: state computations and windows, in order of arrival."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from time import perf_counter
from typing import Any

from wallaroo.engine.dues import Dues
from wallaroo.engine.entities import Bucket, Changes
from wallaroo.engine.flow import SAMPLE, Flow, Outgoing
from wallaroo.engine.packing import (
    TICK,
    Arrivals,
    Packed,
    Runs,
    Stamp,
    Stamped,
    holds_items,
    holds_rows,
    unpacked_group,
    unpacked_items,
    unpacked_rows,
)
from wallaroo.engine.program import Leg, Program
from wallaroo.engine.results import Origin, TaskResults, message_of, origin_at, origins, shown
from wallaroo.engine.steps import Messages, emit, through
from wallaroo.model.application import Compute, StateCompute, WindowCompute
from wallaroo.model.windows import Late

_MISSING = object()
_TIMED_GROUPS = 8
"""Of so many groups of messages, one is timed."""
_FEW_KEYS = 64
"""In a group of at most so many keys, the messages of each are counted."""
_HOT = 16
"""In other groups, those of keys with at least so many messages; of rows, one of so many counts."""


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
        self._flow = Flow(program, results, self._arrive, fresh=False)
        serialization = program.application.serialization
        self._figures = [results.figures.step(leg.pipeline, leg.step.name) for leg in program.legs]
        """By number of the leg."""
        self._names = {n: program.partitions[n].name for n in program.partitions_at(level)}
        self._groups = self._taken = 0
        self._load: Callable[[Any], Any] = (
            _itself if serialization is None else serialization.deserialize
        )

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
            self._flow.finish()
        for number, name in self._names.items():
            self._results.figures.add_hot_keys(name, self._hot[number])
        if self._timed:
            self._results.tally.due[self._level, bucket] = self._dues.next_ns()
        return self._changes

    def sent(self) -> list[Packed]:
        """What the runs so far have sent to later levels; it is forgotten here."""
        return self._outgoing.packed()

    def _run_group(self, blob: bytes) -> None:
        outputs: dict[int, Runs] = defaultdict(list)
        group = unpacked_group(blob)
        timed = self._groups % _TIMED_GROUPS == 0
        self._groups += 1
        hot_from = 1 if len(group) <= _FEW_KEYS else _HOT
        for number, key, runs in group:
            entity = self._entity(number, key)
            if isinstance(entity, _NoEntity):
                self._no_entity(key, runs, entity.error)
                continue
            for leg_number, items, arrivals in runs:
                leg = self._program.legs[leg_number]
                produced = _last_run(outputs[leg.after.tail], leg_number)
                decode = self._decoding(leg)
                origin = partial(origin_at, leg=leg, key=key, items=items, arrivals=arrivals)
                figures, count = self._figures[leg_number], len(items)
                figures.entered += count
                if count >= hot_from:
                    self._hot[number][key] += count
                began = perf_counter() if timed else 0.0
                if self._compute(leg, items, entity, produced, decode, origin):
                    self._changes.changed[number][key] = entity
                if timed:
                    figures.timed += count
                    figures.seconds += perf_counter() - began
        for produced_runs in outputs.values():
            self._finish(produced_runs)

    def _run_rows(self, blob: bytes) -> None:
        for number, leg_number, keys, items, arrivals in unpacked_rows(blob):
            leg, figures = self._program.legs[leg_number], self._figures[leg_number]
            produced: list[Any] = []
            began = perf_counter()
            self._compute_each(leg, keys, items, arrivals, self._state.entities[number], produced)
            figures.seconds += perf_counter() - began
            figures.entered += len(items)
            figures.timed += len(items)
            every = 1 if len(keys) <= _FEW_KEYS * _HOT else _HOT
            for key, count in Counter(keys[::every]).items():
                if count > 1 or every == 1:
                    self._hot[number][key] += count * every
            self._finish([(leg_number, produced, [])])

    def _finish(self, runs: Runs) -> None:
        for number, produced, _ in runs:
            leg = self._program.legs[number]
            self._figures[number].left += len(produced)
            steps = [step for step in leg.after.steps if isinstance(step, Compute)]
            made = through(leg, steps, Messages(produced), self._results)
            emit(leg.after, made, self._results)

    def _entity(self, number: int, key: Any) -> Any:
        """The entity of *key*, made if need be; `_NoEntity` where that raises."""
        entities = self._state.entities[number]
        entity = entities.get(key, _MISSING)
        if entity is _MISSING:
            try:
                entity = self._program.partitions[number].new_entity()
            except (Exception, SystemExit) as error:
                return _NoEntity(error)
            entities[key] = entity
        return entity

    def _no_entity(self, key: Any, runs: Runs, error: BaseException) -> None:
        for number, items, arrivals in runs:
            leg = self._program.legs[number]
            decode = self._decoding(leg)
            for item, origin in origins(leg, key, items, arrivals):
                message = message_of(item, decode)
                self._results.failed(leg, leg.step, message, error, origin)

    def _decoding(self, leg: Leg) -> Callable[[Any], Any]:
        """What makes the message of an item that was sent to *leg*."""
        return leg.source.decode if leg.ships_payloads else self._load

    def _compute(
        self,
        leg: Leg,
        items: list[Any],
        entity: Any,
        outputs: list[Any],
        decode: Callable[[Any], Any],
        origin: Callable[[int], Origin],
    ) -> bool:
        """Run a state computation over *items* of one key; tells whether the entity changed."""
        step = leg.step
        assert isinstance(step, StateCompute)
        function, multi, append = step.function, step.multi, outputs.append
        tells_save, changed = step.tells_save, not step.tells_save
        for place, item in enumerate(items):
            try:
                result = function(decode(item), entity)
                if tells_save:
                    result, save = result
                    if save:
                        changed = True
                if result is None:
                    continue
                if multi:
                    outputs += [output for output in result if output is not None]
                else:
                    append(result)
            except (Exception, SystemExit) as error:
                changed = True  # it may have changed the entity before it raised
                message = message_of(item, decode)
                self._results.failed(leg, step, message, error, origin(place))
        return changed

    def _compute_each(
        self,
        leg: Leg,
        keys: list[Any],
        items: list[Any],
        arrivals: Arrivals,
        entities: dict[Any, Any],
        outputs: list[Any],
    ) -> None:
        """Run a state computation over *items* of many keys, each over the entity of its key."""
        step, number = leg.step, leg.partition
        assert isinstance(step, StateCompute)
        function, multi, append = step.function, step.multi, outputs.append
        decode = self._decoding(leg)
        tells_save, changed = step.tells_save, self._changes.changed[number]
        # all at once: one by one, each would wait until it is in the processor's cache
        found = list(map(entities.get, keys, repeat(_MISSING)))
        for place, (key, item, entity) in enumerate(zip(keys, items, found, strict=True)):
            if entity is _MISSING:
                entity = self._entity(number, key)  # noqa: PLW2901
                if isinstance(entity, _NoEntity):
                    self._no_entity(
                        key, [(leg.number, [item], arrivals[place : place + 1])], entity.error
                    )
                    continue
            try:
                result = function(decode(item), entity)
                if tells_save:
                    result, save = result
                    if save:
                        changed[key] = entity
                else:
                    changed[key] = entity
                if result is None:
                    continue
                if multi:
                    outputs += [output for output in result if output is not None]
                else:
                    append(result)
            except (Exception, SystemExit) as error:
                changed[key] = entity  # it may have changed the entity before it raised
                message = message_of(item, decode)
                origin = origin_at(place, leg, key, items, arrivals)
                self._results.failed(leg, step, message, error, origin)

    def _run_item(self, item: Stamped) -> None:
        stamp, number, key, shipped = item
        if number == TICK:
            self._tick(stamp)
            return
        leg = self._program.legs[number]
        decode = self._decoding(leg)
        try:
            message = decode(shipped)
        except (Exception, SystemExit) as error:
            self._results.failed(leg, leg.step, shipped, error, _origin(leg, stamp, key))
            return
        self._take(leg, stamp, key, message)

    def _arrive(self, item: Stamped) -> None:
        """Run a message that has come to a leg, or send it to the level that does."""
        stamp, number, key, message = item
        leg = self._program.legs[number]
        if self._program.levels.level(leg.partition) == self._level:
            self._take(leg, stamp, key, message)
        else:
            self._outgoing.add(item)

    def _take(self, leg: Leg, stamp: Stamp, key: Any, message: Any) -> None:
        """Run *message* through the step of *leg*, and what becomes of it through the rest."""
        entity = self._entity(leg.partition, key)
        if isinstance(entity, _NoEntity):
            self._results.failed(leg, leg.step, message, entity.error, _origin(leg, stamp, key))
            return
        outputs: list[Any] = []
        figures = self._figures[leg.number]
        self._taken += 1
        timed = self._taken % SAMPLE == 0
        began = perf_counter() if timed else 0.0
        if isinstance(leg.step, WindowCompute):
            self._gather(leg, leg.step, stamp, key, message, entity, outputs)
        elif self._compute(
            leg, [message], entity, outputs, _itself, lambda _place: _origin(leg, stamp, key)
        ):
            self._changes.changed[leg.partition][key] = entity
        if timed:
            figures.timed += 1
            figures.seconds += perf_counter() - began
        figures.entered += 1
        figures.left += len(outputs)
        self._hot[leg.partition][key] += 1
        for number, output in enumerate(outputs):
            self._flow.go(leg.after, (*stamp, number), key, output)

    def _gather(
        self,
        leg: Leg,
        step: WindowCompute,
        stamp: Stamp,
        key: Any,
        message: Any,
        entity: Any,
        outputs: list[Any],
    ) -> None:
        failed = partial(self._results.failed, leg, step)
        try:
            outputs += step.windows.take(entity, key, message, stamp[1], failed)
        except Late:
            self._results.tally.add_late(leg.pipeline, step.name)
        except (Exception, SystemExit) as error:
            self._results.failed(leg, step, message, error, _origin(leg, stamp, key))
        self._note(leg.partition, step, key, entity)

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
                self._flow.go(
                    leg.after, (*stamp, leg.number, self._bucket, order, place), key, output
                )

    def note_state(self, bucket: int, state: Bucket) -> None:
        """Count what *bucket* has in memory, for the figures."""
        figures = self._results.figures
        for number, name in self._names.items():
            figures.entities[name, bucket] = len(state.entities[number])
        figures.log_bytes[", ".join(self._names.values()), bucket] = state.head.log_bytes

    def _note(self, number: int, step: WindowCompute, key: Any, entity: Any) -> None:
        """Note what happened to the windows of *key*."""
        self._dues.set(number, key, step.windows.due_ns(entity))
        if step.windows.is_spent(entity):
            self._state.entities[number].pop(key, None)
            self._changes.changed[number].pop(key, None)
            self._changes.forgotten[number].add(key)
        else:
            self._changes.changed[number][key] = entity
            self._changes.forgotten[number].discard(key)

    def _dues_of(self, state: Bucket) -> Dues:
        if state.dues is None:
            state.dues = Dues()
            for number in self._timed:
                windows = self._program.partitions[number].windows
                assert windows is not None
                for key, entity in state.entities[number].items():
                    state.dues.set(number, key, windows.due_ns(entity))
        return state.dues


@dataclass(frozen=True)
class _NoEntity:
    """There is no entity, because user code raised when it was to be made."""

    error: BaseException


def _last_run(runs: Runs, leg: int) -> list[Any]:
    """The list that what *leg* produces next belongs in."""
    if not runs or runs[-1][0] != leg:
        runs.append((leg, [], []))
    return runs[-1][1]


def _origin(leg: Leg, stamp: Stamp, key: Any) -> Origin:
    """Where a message at *leg* comes from."""
    return Origin(shown(key, 100), stamp[0] if leg.fresh else None)


def _stamp_of(item: Stamped) -> Stamp:
    return item[0]


def _itself(item: Any) -> Any:
    return item
