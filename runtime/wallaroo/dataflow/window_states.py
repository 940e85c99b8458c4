"""Windows and joins, one message at a time.

The semantics are those of `wallaroo.model.windows`. What a message changes besides its windows,
such as when they close, is noted once for all messages of a key: before the clock is looked at, and
at the end of what a bucket gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from wallaroo.dataflow.buckets import Bucket, Changes
from wallaroo.dataflow.clocks import Clocks
from wallaroo.dataflow.current_message import knows_message
from wallaroo.dataflow.early_times import hint_at_early_time
from wallaroo.dataflow.open_windows import OpenWindows
from wallaroo.dataflow.packing import Stamp
from wallaroo.dataflow.paths import SAMPLE, Path
from wallaroo.dataflow.program import Program, StatefulStage
from wallaroo.dataflow.results import Origin, TaskResults
from wallaroo.dataflow.timers import Timers
from wallaroo.model.application import WindowCompute
from wallaroo.model.windows import Failed, Late, Windows, overdue
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.wire.task_metrics import WindowFigures


class _Touched(NamedTuple):
    """Windows of a key that a message may have changed."""

    windows: Windows
    entity: Any
    before: int
    """How many of them were open before."""


@time_limited
class WindowStates:
    """Runs messages and ticks through the windows of one level, over one bucket at a time.

    Args:
        program: The program.
        results: Collects outputs and failed messages.
        level: The level.
        after: The path of outputs, by number of the stage.
        late: The path of messages that come too late, by number of the stage.
        entity: From partition number and key to the entity, which it creates if necessary.
        clocks: The clocks of the states.
    """

    def __init__(
        self,
        program: Program,
        results: TaskResults,
        level: int,
        after: Mapping[int, Path],
        late: Mapping[int, Path],
        entity: Callable[[int, Any], Any],
        clocks: Clocks,
    ) -> None:
        self._clocks = clocks
        self._program = program
        self._results = results
        self._after = after
        self._late = late
        self._entity = entity
        self._windows: dict[int, Windows] = {
            number: windows
            for number in program.partitions_at(level)
            if (windows := program.partitions[number].windows) is not None
        }
        """By number of the partition."""
        self._stage_of = {stage.partition: stage for stage in reversed(program.stages)}
        """One stage of each partition; all stages of a partition with windows continue alike."""
        self._metrics = [
            results.metrics.step(stage.pipeline, stage.step.name) for stage in program.stages
        ]
        """Metrics by number of the stage."""
        self._failed: list[Failed] = [
            partial(results.failed, stage, stage.step) for stage in program.stages
        ]
        """What notes failed messages, by number of the stage."""
        self._touched: dict[tuple[int, Any], _Touched] = {}
        """What is still to be noted, by partition and key."""
        self._reported: dict[int, tuple[int, WindowFigures]] = {}
        """By partition, the bucket and the figures of its windows that were reported last."""

    def begin(self, number: int, bucket: Bucket, timers: Timers, changes: Changes) -> None:
        """Run over *bucket* from now on, and note *changes* and when its windows close."""
        self._number, self._bucket, self._timers, self._changes = number, bucket, timers, changes
        self._idle = bucket.idle or Timers()
        self._open = bucket.open_windows or OpenWindows()
        self._touched.clear()

    def set_all(self, bucket: Bucket, timers: Timers) -> None:
        """Set when the windows of *bucket*, which has just been read, close."""
        bucket.idle, bucket.open_windows = Timers(), OpenWindows()
        for number, windows in self._windows.items():
            for key, entity in bucket.entities[number].items():
                self._set_times(timers, bucket.idle, number, key, entity)
                bucket.open_windows.note(number, windows, entity, before=0)

    @knows_message("stamp", key="key", owner="stage", state_key="key")
    @runs_step("stage")
    def take(
        self, stage: StatefulStage, step: WindowCompute, stamp: Stamp, key: Any, message: Any
    ) -> None:
        """Run *message* through the windows of *stage*, and their outputs through what follows."""
        metrics, failed, late = self._metrics[stage.number], self._failed[stage.number], False
        began = 0.0 if metrics.entered % SAMPLE else perf_counter()
        metrics.entered += 1
        try:
            entity = self._entity(stage.partition, key)
        except (Exception, SystemExit) as error:
            self._results.failed(stage, step, message, error, Origin.at(stage, stamp, key))
            return
        windows, where = step.windows, (stage.partition, key)
        if where not in self._touched:
            before = windows.open_windows(entity)
            self._touched[where] = _Touched(windows, entity, before)
        now_ns = self._clocks.now(stage.partition, stamp)
        outputs = overdue(windows, entity, key, now_ns, failed)
        try:
            outputs += windows.take(entity, key, message, now_ns, failed)
        except Late:
            late = True
            self._results.tally.add_late(stage.pipeline, step.name)
        except (Exception, SystemExit) as error:
            self._results.failed(stage, step, message, error, Origin.at(stage, stamp, key))
        if began:
            metrics.timed += 1
            metrics.seconds += perf_counter() - began
            if windows.by_event:
                hint_at_early_time(stage, windows.watermark(entity))
        metrics.left += len(outputs)
        after = self._after[stage.number]
        for number, output in enumerate(outputs):
            after((*stamp, number), key, output)
        if late and stage.late is not None:
            self._late[stage.number]((*stamp, len(outputs)), key, message)

    @knows_message("stamp", key="key", owner="stage", state_key="key")
    @runs_step("stage")
    def tick(self, stamp: Stamp, number: int, key: Any, order: int, now_ns: int) -> None:
        """Close the windows of *key* that are due when their clock shows *now_ns*.

        Args:
            stamp: Stamp of a tick.
            number: Number of the partition.
            key: The key.
            order: Place of the key among all that this tick wakes.
            now_ns: The clock of the windows.
        """
        entity = self._bucket.entities[number].get(key)
        if entity is None:
            return
        stage, due_ns = self._stage_of[number], self._windows[number].due_ns(entity)
        if due_ns is None or due_ns > now_ns:  # its clock has stood still
            self._timers.set(number, key, self._clocks.wall(number, due_ns))
            return
        outputs = self._ticked(stage, key, entity, now_ns)
        self._metrics[stage.number].left += len(outputs)
        for place, output in enumerate(outputs):
            at = (*stamp, stage.number, self._number, order, place)
            self._after[stage.number](at, key, output)

    @knows_message("stamp", key="key")
    def end(self, stamp: Stamp) -> None:
        """Note everything, and free what no message depends on by the time of *stamp*, the last."""
        self.note_touched()
        for number, key in self._idle.take_due(stamp[1]):
            entity = self._bucket.entities[number].get(key)
            if entity is None:
                continue
            now_ns = self._clocks.last(number, stamp[1])
            idle_ns = self._windows[number].idle_ns(entity)
            if idle_ns is not None and idle_ns > now_ns:  # its clock has stood still
                self._idle.set(number, key, self._clocks.wall(number, idle_ns))
            else:  # it has no outputs
                self._ticked(self._stage_of[number], key, entity, now_ns)

    def note_touched(self) -> None:
        """Note what messages have changed: once for each key, however many there were."""
        for (number, key), touched in self._touched.items():
            self._note(number, key, touched)
        self._touched.clear()

    def report(self, partitions: Iterable[int]) -> None:
        """Add the figures of the windows to the metrics, where they have changed."""
        for number in partitions:
            found = self._number, self._open.figures(number)
            if self._reported.get(number) != found:
                self._reported[number] = found
                name = self._program.partitions[number].name
                self._results.metrics.windows[name, self._number] = found[1]

    @knows_message(key="key", owner="stage", state_key="key")
    @runs_step("stage")
    def _ticked(self, stage: StatefulStage, key: Any, entity: Any, now_ns: int) -> list[Any]:
        step = stage.step
        assert isinstance(step, WindowCompute)
        touched = _Touched(step.windows, entity, step.windows.open_windows(entity))
        outputs = step.windows.tick(entity, key, now_ns, self._failed[stage.number])
        self._note(stage.partition, key, touched)
        return outputs

    def _note(self, number: int, key: Any, touched: _Touched) -> None:
        """Record changes to the windows of *key*, and set its timer."""
        windows, entity, before = touched
        self._open.note(number, windows, entity, before)
        if windows.is_disposable(entity):
            self._timers.forget(number, key)
            self._idle.forget(number, key)
            self._bucket.entities[number].pop(key, None)
            self._changes.changed[number].pop(key, None)
            self._changes.forgotten[number].add(key)
        else:
            self._set_times(self._timers, self._idle, number, key, entity)
            self._changes.changed[number][key] = entity

    def _set_times(self, timers: Timers, idle: Timers, number: int, key: Any, entity: Any) -> None:
        """Set when the clock closes windows of *key*, and when it frees what nothing depends on."""
        windows = self._windows[number]
        timers.set(number, key, self._clocks.wall(number, windows.due_ns(entity)))
        idle_ns = self._clocks.wall(number, windows.idle_ns(entity))
        if idle_ns is None:  # most windows never are: no memory for them
            idle.forget(number, key)
        else:
            idle.set(number, key, idle_ns)
