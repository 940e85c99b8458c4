"""State computations over state with timers or a time to live, one message at a time.

The semantics are those of `wallaroo.model.timing`. The times of keys are kept beside the entities,
are saved with them, and go to the log even if an entity has not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from wallaroo.api.durations import since_epoch_ns
from wallaroo.api.timers import CallTimers
from wallaroo.dataflow.buckets import Bucket, Changes, Unloadable
from wallaroo.dataflow.clocks import Clocks
from wallaroo.dataflow.current_message import SILENT, knows_message
from wallaroo.dataflow.early_times import hint_at_early_time
from wallaroo.dataflow.packing import Stamp
from wallaroo.dataflow.paths import SAMPLE, Path
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults
from wallaroo.dataflow.savable import SkippedCall
from wallaroo.dataflow.steps.multiple_outputs import pair_of
from wallaroo.dataflow.timers import Timers
from wallaroo.model.application import StateCompute
from wallaroo.model.timing import Due, KeyTime, Timing, describe_timer
from wallaroo.user_code.callers import runs_step, time_limited

_BEFORE = -1
"""Place of those that became due with the message, before its own outputs."""
_AFTER = 2**62
"""Place of those that the message set to a time that has passed."""


@time_limited
class TimedStates:
    """Runs messages and timers through the timed states of one level, over one bucket at a time.

    Args:
        program: The program.
        results: Collects outputs and failed messages.
        level: The level.
        after: The path of outputs, by number of the stage.
        of_timers: The path of what timers emit.
        entity: From partition number and key to the entity, which it creates if necessary.
        clocks: The clocks of the states.
    """

    def __init__(
        self,
        program: Program,
        results: TaskResults,
        level: int,
        after: Mapping[int, Path],
        of_timers: Mapping[int, Path],
        entity: Callable[[int, Any], Any],
        clocks: Clocks,
    ) -> None:
        self._clocks = clocks
        self._program = program
        self._results = results
        self._after, self._of_timers = after, of_timers
        self._entity = entity
        timings = {number: program.partitions[number].timing for number in program.timed}
        self._timings: dict[int, Timing] = {
            number: timing
            for number, timing in timings.items()
            if timing is not None and program.levels.level(number) == level
        }
        """By number of the partition."""
        self._owners: dict[int, StatefulStage] = {}
        """The stage that timers of a partition call; those of merged pipelines continue alike."""
        for stage in reversed(program.stages):
            if isinstance(stage.step, StateCompute) and stage.step.on_timer is not None:
                self._owners[stage.partition] = stage

    def begin(
        self, number: int, bucket: Bucket, wakes: Timers, expiries: Timers, changes: Changes
    ) -> None:
        """Run over *bucket* from now on, and note *changes* and when to look at its keys.

        Args:
            number: Number of the bucket.
            bucket: The bucket.
            wakes: For keys with timers.
            expiries: For keys without, whose entities expire.
            changes: What is changed.
        """
        self._number, self._bucket, self._changes = number, bucket, changes
        self._wakes, self._expiries = wakes, expiries

    def contains(self, partition: int) -> bool:
        """Whether the state *partition* has timers or a time to live."""
        return partition in self._timings

    def set_all(self, bucket: Bucket, wakes: Timers, expiries: Timers) -> None:
        """Set when to look at the keys of *bucket*, which has just been read; see `begin`."""
        for number, timing in self._timings.items():
            for key in bucket.entities[number]:
                time = bucket.times.get((number, key))
                if time is not None:
                    self._wake(wakes, expiries, (number, key), time)
                elif timing.ttl_ns is not None:  # as old as what looks at it next
                    expiries.set(number, key, 0)
        for number, key in bucket.unloaded:
            time = bucket.times.get((number, key))
            if number in self._timings and time is not None and time.timers:
                due_ns = self._timings[number].due_ns(time)
                wakes.set(number, key, self._clocks.wall(number, due_ns))

    @knows_message("stamp", key="key", owner="stage", state_key="key")
    @runs_step("stage")
    def take(self, stage: StatefulStage, stamp: Stamp, key: Any, message: Any) -> None:
        """Run *message* through the step of *stage*, and before it, what is due by then."""
        step, number = stage.step, stage.partition
        clock_ns = self._clocks.now(number, stamp)
        assert isinstance(step, StateCompute)
        metrics = self._results.metrics.step(stage.pipeline, step.name)
        began = 0.0 if metrics.entered % SAMPLE else perf_counter()
        metrics.entered += 1
        arrival = stamp[0] if stage.fresh else None
        timing, where = self._timings[number], (number, key)
        if where not in self._bucket.unloaded and (time := self._time(where)) is not None:
            self._settle(timing, stamp, where, time.reached(clock_ns), SILENT, clock_ns)
        try:
            event = None
            if step.event_time is not None:
                event = since_epoch_ns(step.event_time(message))
        except (Exception, SystemExit) as error:
            self._results.failed(stage, step, message, error, Origin.of(key, arrival))
            self._note(timing, where)
            return
        time = self._bucket.times.get(where)
        now = timing.time_of(time, stamp[1], event)
        if time is not None and time.latest is not None and where not in self._bucket.unloaded:
            self._settle(timing, stamp, where, now, _BEFORE, clock_ns)
        try:
            entity = self._entity(number, key)
        except (Exception, SystemExit) as error:
            self._results.failed(stage, step, message, error, Origin.of(key, arrival))
            self._note(timing, where)
            return
        time = timing.arrived(self._bucket.times.get(where), clock_ns, now)
        self._bucket.times[where] = time
        timers = CallTimers(key, time.reached(clock_ns), time.timers, in_timer=False)
        arguments = (timers,) if step.on_timer is not None else ()
        outputs = self._call(stage, step.function, where, (message, entity, *arguments), arrival)
        timers.end()
        if began:
            metrics.time(began)
            hint_at_early_time(stage, event)
        metrics.left += len(outputs)
        then = self._after[stage.number]
        for place, output in enumerate(outputs):
            then((*stamp, place), key, output)
        self._settle(timing, stamp, where, time.reached(clock_ns), _AFTER, clock_ns)
        self._note(timing, where)

    def tick(self, stamp: Stamp, number: int, key: Any, clock_ns: int) -> None:
        """Call what is due for *key* when the clock of its state shows *clock_ns*."""
        where, timing = (number, key), self._timings[number]
        if where in self._bucket.unloaded:
            self._cannot_call(where, clock_ns)
            return
        if key not in self._bucket.entities[number]:
            return
        time = self._time(where)
        if time is None:
            self._bucket.times[where] = time = KeyTime.unknown(clock_ns)
        elif (due_ns := timing.due_ns(time)) is not None and due_ns > clock_ns:  # it stood still
            self._wake(self._wakes, self._expiries, where, time)
            return
        self._settle(timing, stamp, where, time.reached(clock_ns), SILENT, clock_ns)
        self._note(timing, where)

    def _wake(self, wakes: Timers, expiries: Timers, where: tuple[int, Any], time: KeyTime) -> None:
        """Set when to look at a key of this *time* again."""
        due_ns = self._timings[where[0]].wake_ns(time)
        (wakes if time.timers else expiries).set(*where, self._clocks.wall(where[0], due_ns))

    def _time(self, where: tuple[int, Any]) -> KeyTime | None:
        return self._bucket.times.get(where)

    def _settle(
        self,
        timing: Timing,
        stamp: Stamp,
        where: tuple[int, Any],
        until: int,
        place: int,
        clock_ns: int,
    ) -> None:
        """Call the timers that are due by *until*, and free the entity if it expires by then.

        Args:
            timing: Timing of the state.
            stamp: Stamp of the message or of the tick.
            where: State and key.
            until: A time of the key.
            place: Place of the outputs among those of the message.
            clock_ns: The clock of the state.
        """
        order = 0
        while (time := self._time(where)) is not None:
            if (due := timing.pop_due(time, until)) is None:
                return
            if due.timer is None:
                self._expire(where)
                return
            at: Stamp = (*stamp, place, order)
            if place == SILENT:  # by time, among those of all keys
                ago = max(0, clock_ns - time.clock_at(due.at))
                at = (
                    stamp[0],
                    stamp[1] - ago,
                    stamp[2],
                    SILENT,
                    where[0],
                    self._number,
                    order,
                )
            self._call_timer(at, where, due, time)
            order += 1

    @knows_message("stamp", key="key", owner="stage", state_key="key")
    @runs_step("stage")
    def _call_timer(self, stamp: Stamp, where: tuple[int, Any], due: Due, time: KeyTime) -> None:
        number, key = where
        stage = self._owners.get(number)
        if stage is None:  # set by a step that no longer has timers
            return
        step = stage.step
        assert isinstance(step, StateCompute)
        assert step.on_timer is not None
        entity = self._bucket.entities[number][key]
        timers = CallTimers(key, due.at, time.timers, in_timer=True)
        arguments = (due.timer, entity, timers)
        outputs = self._call(stage, step.on_timer, where, arguments, None, due)
        timers.end()
        self._results.metrics.step(stage.pipeline, step.name).left += len(outputs)
        then = self._of_timers[stage.number]
        for place, output in enumerate(outputs):
            then((*stamp, place), key, output)

    def _cannot_call(self, where: tuple[int, Any], now_ns: int) -> None:
        """Dead-letter the due timers of an entity that cannot be loaded.

        Its timers stay set, for a later run that can load it; each is dead-lettered once in a run.
        """
        time, stage = self._time(where), self._owners.get(where[0])
        if time is None or stage is None:
            return
        before, until = self._bucket.dead_lettered.get(where, -1), time.reached(now_ns)
        for at, name in sorted((at, name) for name, at in time.timers.items()):
            if at > until:
                self._wakes.set(*where, self._clocks.wall(where[0], time.clock_at(at)))
                break
            if at > before:
                error = Unloadable(self._bucket.unloaded[where])
                message, origin = describe_timer(where[1], Due(at, name)), Origin.of(where[1], None)
                self._results.failed(stage, stage.step, message, error, origin)
        self._bucket.dead_lettered[where] = until

    @runs_step("stage")
    def _call(
        self,
        stage: StatefulStage,
        function: Callable[..., Any],
        where: tuple[int, Any],
        arguments: tuple[Any, ...],
        arrival: int | None,
        due: Due | None = None,
    ) -> list[Any]:
        """Return the outputs of *function*, for a message or what is *due*; none if it raises."""
        step, entity = stage.step, arguments[1]
        assert isinstance(step, StateCompute)
        changed, save = self._changes.changed[where[0]], True
        try:
            result = function(*arguments)
            if step.returns_save:
                result, save = pair_of(result)
            if step.multi and result is not None:
                result = [output for output in result if output is not None]
        except (Exception, SystemExit) as error:
            if not isinstance(error, SkippedCall):
                changed[where[1]] = entity  # may have been changed before the exception
            message = arguments[0] if due is None else describe_timer(where[1], due)
            self._results.failed(stage, step, message, error, Origin.of(where[1], arrival))
            return []
        if save:
            changed[where[1]] = entity
        if result is None:
            return []
        return result if step.multi else [result]

    def _expire(self, where: tuple[int, Any]) -> None:
        number, key = where
        self._bucket.entities[number].pop(key, None)
        self._bucket.times.pop(where, None)
        self._changes.changed[number].pop(key, None)
        self._changes.forgotten[number].add(key)
        self._results.metrics.add_expired(self._program.partitions[number].name)

    def _note(self, timing: Timing, where: tuple[int, Any]) -> None:
        """Record the time of a key, and when it is to be looked at."""
        time = self._time(where)
        if time is None or not timing.must_keep(time):
            if self._bucket.times.pop(where, None) is not None or where in self._changes.times:
                self._changes.times[where] = None
            self._wakes.forget(*where)
            self._expiries.forget(*where)
            return
        self._changes.times[where] = time
        own, other = self._wakes, self._expiries
        if not time.timers:
            own, other = other, own
        other.forget(*where)
        due_ns = self._clocks.wall(where[0], timing.wake_ns(time))
        set_ns = own.of(*where)
        if due_ns is None or set_ns is None or due_ns < set_ns:  # else it is set again when woken
            own.set(*where, due_ns)
