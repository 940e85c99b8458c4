"""Finding the message that kills or blocks the process that runs user code on it.

A task that is tried again runs its messages in a copy of its process first, a fork, which notes in
shared memory which call of a function of the application is under way. If the copy dies, or does
not go on, twice at the same call, the call is refused in the next copy, and so on until one gets
through. Then the task itself runs, and the refused calls raise: their messages are set aside like
all others on which user code raises. What the copies do to state and outputs is lost with them.
Messages on which user code raises what is no `Exception`, which fails a task, are set aside, too.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import mmap
import os
import signal
import struct
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from wallaroo.api.windows import Aggregation
from wallaroo.engine.program import Program
from wallaroo.engine.results import TaskResults
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    KeyBy,
    Pipeline,
    Serialization,
    Sink,
    Source,
    StateCompute,
    StatePartition,
    Step,
    WindowCompute,
)
from wallaroo.model.windows import CountWindows, RangeWindows, Windows

_NUMBER = struct.Struct("=Q")
_LOOK_EVERY_S = 0.01
_SURE = 2
"""Copies that have to end at the same call: one may have been killed from outside."""
_MOST_COPIES = 1_000
_PR_SET_PDEATHSIG = 1

T = TypeVar("T")
Run = Callable[[Program, TaskResults], T]
"""Runs messages through a program; the same way each time."""


class Refused(Exception):
    """A call that kills or blocks its process, and is not made."""


class Raised(Exception):
    """A call raised what is no `Exception`, such as `asyncio.CancelledError`."""


def run_isolated(program: Program, results: TaskResults, limit_s: float, run: Run[T]) -> T:
    """Call *run* with a program of which calls that kill or block the process raise `Refused`.

    Args:
        program: What to run.
        results: Takes outputs and what is set aside.
        limit_s: Seconds that a call may take; 0 for as long as it likes.
        run: Runs the messages of the task.
    """
    refused = _find_refused(program, limit_s, run)
    return run(_guarded(program, _Calls(refused)), results)


def _find_refused(program: Program, limit_s: float, run: Run[Any]) -> dict[int, str]:
    refused: dict[int, str] = {}
    last, times = 0, 0
    with mmap.mmap(-1, _NUMBER.size) as shared:
        for _ in range(_MOST_COPIES):
            ended = _ended_copy(program, limit_s, run, _Calls(refused, shared), shared)
            if ended is None:
                break
            (number,) = _NUMBER.unpack_from(shared)
            if number == 0 or number in refused:
                break  # it was no function of the application
            last, times = number, times + 1 if number == last else 1
            if times == _SURE:
                import structlog  # takes longer to load than the engine

                log = structlog.get_logger("wallaroo.worker")
                log.warning("a message ends its process", call=number, reason=ended)
                refused[number] = ended
    return refused


def _ended_copy(
    program: Program, limit_s: float, run: Run[Any], calls: _Calls, shared: mmap.mmap
) -> str | None:
    """Run in a copy of this process; how it ended, None if it got through."""
    _NUMBER.pack_into(shared, 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the copy leaves other threads alone
        child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            run(_guarded(program, calls), TaskResults(lambda _outputs, _tally: None))
        finally:
            os._exit(0)  # what it raised, the task itself will raise
    seen, since = 0, time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _told(status)
        (number,) = _NUMBER.unpack_from(shared)
        now = time.monotonic()
        if number != seen:
            seen, since = number, now
        elif limit_s and now - since > limit_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"it took longer than {limit_s:g} s"
        time.sleep(_LOOK_EVERY_S)


def _told(status: int) -> str | None:
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return None
    if code < 0:
        return f"it killed its process ({signal.Signals(-code).name})"
    return f"it ended its process (exit code {code})"


class _Calls:
    """Counts calls of functions of an application, and refuses some.

    Args:
        refused: Numbers of the calls that are refused, and why.
        shared: Where to note the number of the call under way.
    """

    def __init__(self, refused: Mapping[int, str], shared: mmap.mmap | None = None) -> None:
        self._refused = refused
        self._shared = shared
        self._number = 0

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """*function*, counted."""

        def guarded(*arguments: Any) -> Any:
            self._number += 1
            if self._shared is not None:
                _NUMBER.pack_into(self._shared, 0, self._number)
            if (reason := self._refused.get(self._number)) is not None:
                raise Refused(reason)
            try:
                return function(*arguments)
            except (Exception, SystemExit):
                raise
            except BaseException as error:
                msg = f"{type(error).__name__}: {error}"
                raise Raised(msg) from error

        functools.update_wrapper(guarded, function, updated=())
        return guarded


class _GuardedAggregation(Aggregation[Any, Any, Any]):
    def __init__(self, aggregation: Aggregation[Any, Any, Any], calls: _Calls) -> None:
        self._initial = calls.guard(aggregation.initial_accumulator)
        self._update = calls.guard(aggregation.update)
        self._combine = calls.guard(aggregation.combine)
        self._output = calls.guard(aggregation.output)

    def initial_accumulator(self) -> Any:
        return self._initial()

    def update(self, message: Any, accumulator: Any) -> None:
        self._update(message, accumulator)

    def combine(self, one: Any, other: Any) -> Any:
        return self._combine(one, other)

    def output(self, key: Any, accumulator: Any) -> Any:
        return self._output(key, accumulator)


def _guarded(program: Program, calls: _Calls) -> Program:
    """*program* with every function of the application guarded."""
    return Program(_Guarding(calls).application(program.application), program.buckets)


class _Guarding:
    """Makes guarded copies of the parts of an application; of each part one."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._sources: dict[int, Source] = {}
        self._sinks: dict[int, Sink] = {}

    def application(self, whole: Application) -> Application:
        guard, own = self._calls.guard, whole.serialization
        return dataclasses.replace(
            whole,
            pipelines=tuple(self._pipeline(pipeline) for pipeline in whole.pipelines),
            partitions={name: self._partition(of) for name, of in whole.partitions.items()},
            serialization=None
            if own is None
            else Serialization(guard(own.serialize), guard(own.deserialize)),
        )

    def _pipeline(self, pipeline: Pipeline) -> Pipeline:
        guard, source = self._calls.guard, pipeline.source
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
        return Branch(
            tuple(self._step(step) for step in branch.steps),
            tuple(self._branch(fork) for fork in branch.forks),
        )

    def _step(self, step: Step) -> Step:
        guard = self._calls.guard
        if isinstance(step, Compute):
            return dataclasses.replace(step, function=guard(step.function))
        if isinstance(step, KeyBy):
            return dataclasses.replace(step, key=guard(step.key))
        key = None if step.key is None else guard(step.key)
        if isinstance(step, StateCompute):
            return dataclasses.replace(step, function=guard(step.function), key=key)
        assert isinstance(step, WindowCompute)
        return dataclasses.replace(step, windows=self._windows(step.windows), key=key)

    def _partition(self, partition: StatePartition) -> StatePartition:
        if partition.windows is not None:
            windows = self._windows(partition.windows)
            return dataclasses.replace(partition, windows=windows, new_entity=windows.new_entity)
        return dataclasses.replace(partition, new_entity=self._calls.guard(partition.new_entity))

    def _windows(self, windows: Windows) -> Windows:
        assert isinstance(windows, (RangeWindows, CountWindows))
        aggregation = _GuardedAggregation(windows.aggregation, self._calls)
        if isinstance(windows, CountWindows):
            return dataclasses.replace(windows, aggregation=aggregation)
        event_time = None if windows.event_time is None else self._calls.guard(windows.event_time)
        return dataclasses.replace(windows, aggregation=aggregation, event_time=event_time)
