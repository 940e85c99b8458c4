"""Wraps the functions of an application in guards that count, skip or check calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from wallaroo.api.aggregations import Aggregation
from wallaroo.dataflow.steps.gathering import Gathering
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    KeyBy,
    Pipeline,
    Serialization,
    StateCompute,
    StatePartition,
    Step,
    WindowCompute,
)
from wallaroo.model.endpoints import Sink, Source
from wallaroo.model.joins import Join
from wallaroo.model.windows import CountWindows, RangeWindows, SessionWindows, Windows

Guard = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Wraps a function."""


GatheringGuard = Callable[[Gathering], Callable[[Any], Any]]
"""Wraps the function of a step that is called for many messages at a time."""


class Checks(Protocol):
    """Checks entities after the calls that touch them."""

    def function(self, step: StateCompute) -> Callable[..., Any]:
        """Wrap the function of *step* with a check."""

    def windows(self, windows: Windows, partition: str) -> Windows:
        """Wrap the *windows* of *partition* with checks."""

    def other(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a *function* that takes no entity, but may hold a part of one, with a check."""


def guarded(
    application: Application,
    guard: Guard,
    checks: Checks | None = None,
    guard_gathering: GatheringGuard | None = None,
) -> Application:
    """Return a copy of *application* with guarded functions, whose entities *checks* checks.

    Args:
        application: The application.
        guard: Wraps its functions.
        checks: Checks entities; None for no checks.
        guard_gathering: Wraps the functions of steps that are called for many messages at a time;
            None to call *guard*, so that they are called for one.
    """
    return _Guarding(guard, checks, guard_gathering).application(application)


class _GuardedAggregation(Aggregation[Any, Any, Any]):
    def __init__(self, aggregation: Aggregation[Any, Any, Any], guard: Guard) -> None:
        self._initial = guard(aggregation.initial_accumulator)
        self._update = guard(aggregation.update)
        self._combine = guard(aggregation.combine)
        self._output = guard(aggregation.output)

    def initial_accumulator(self) -> Any:
        return self._initial()

    def update(self, message: Any, accumulator: Any) -> None:
        self._update(message, accumulator)

    def combine(self, one: Any, other: Any) -> Any:
        return self._combine(one, other)

    def output(self, *arguments: Any) -> Any:
        return self._output(*arguments)


class _Guarding:
    """Creates guarded copies of the parts of an application, one of each."""

    def __init__(
        self, guard: Guard, checks: Checks | None, guard_gathering: GatheringGuard | None
    ) -> None:
        self._guard = guard
        self._guard_gathering = guard_gathering or guard
        self._checks = checks
        self._other = guard if checks is None else lambda function: guard(checks.other(function))
        """For functions that take no entity."""
        self._sources: dict[int, Source] = {}
        self._sinks: dict[int, Sink] = {}

    def application(self, application: Application) -> Application:
        guard, custom = self._guard, application.serialization
        return dataclasses.replace(
            application,
            pipelines=tuple(self._pipeline(pipeline) for pipeline in application.pipelines),
            partitions={name: self._partition(of) for name, of in application.partitions.items()},
            serialization=None
            if custom is None
            else Serialization(guard(custom.serialize), guard(custom.deserialize)),
        )

    def _pipeline(self, pipeline: Pipeline) -> Pipeline:
        guard, source = self._other, pipeline.source
        if id(source) not in self._sources:
            guarded = dataclasses.replace(source, decode=guard(source.decode))
            self._sources[id(source)] = guarded
        for sink in pipeline.sinks:
            if id(sink) not in self._sinks:
                self._sinks[id(sink)] = dataclasses.replace(sink, encode=guard(sink.encode))
        return dataclasses.replace(
            pipeline,
            source=self._sources[id(source)],
            trunk=self._branch(pipeline.trunk),
            sinks=tuple(self._sinks[id(sink)] for sink in pipeline.sinks),
        )

    def _branch(self, branch: Branch) -> Branch:
        return dataclasses.replace(
            branch,
            steps=tuple(self._step(step) for step in branch.steps),
            forks=tuple(self._branch(fork) for fork in branch.forks),
        )

    def _step(self, step: Step) -> Step:
        guard, other = self._guard, self._other
        if isinstance(step, Compute) and isinstance(step.function, Gathering):
            # no check: its messages are copies, which hold no part of an entity
            return dataclasses.replace(step, function=self._guard_gathering(step.function))
        if isinstance(step, Compute):
            return dataclasses.replace(step, function=other(step.function))
        if isinstance(step, KeyBy):
            return dataclasses.replace(step, key=other(step.key))
        key = None if step.key is None else other(step.key)
        if isinstance(step, StateCompute):
            return dataclasses.replace(
                step,
                function=guard(self._checked(step, step.function)),
                key=key,
                on_timer=None
                if step.on_timer is None
                else guard(self._checked(step, step.on_timer)),
                event_time=None if step.event_time is None else other(step.event_time),
            )
        assert isinstance(step, WindowCompute)
        windows = self._windows(step.windows, step.partition)
        late = None if step.late is None else self._branch(step.late)
        return dataclasses.replace(step, windows=windows, key=key, late=late)

    def _checked(self, step: StateCompute, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap *function* of *step*, which takes an entity."""
        if self._checks is None:
            return function
        return self._checks.function(dataclasses.replace(step, function=function))

    def _partition(self, partition: StatePartition) -> StatePartition:
        if partition.windows is not None:
            windows = self._windows(partition.windows, partition.name)
            return dataclasses.replace(partition, windows=windows, new_entity=windows.new_entity)
        return dataclasses.replace(partition, new_entity=self._guard(partition.new_entity))

    def _windows(self, windows: Windows, partition: str) -> Windows:
        guarded = self._guarded_windows(windows)
        return guarded if self._checks is None else self._checks.windows(guarded, partition)

    def _guarded_windows(self, windows: Windows) -> Windows:
        if isinstance(windows, Join):
            return windows.guarded(self._guard)
        assert isinstance(windows, (RangeWindows, SessionWindows, CountWindows))
        aggregation = _GuardedAggregation(windows.aggregation, self._guard)
        if isinstance(windows, CountWindows):
            return dataclasses.replace(windows, aggregation=aggregation)
        event_time = None if windows.event_time is None else self._guard(windows.event_time)
        return dataclasses.replace(windows, aggregation=aggregation, event_time=event_time)
