"""Messages that are run again, with the processor time that functions of each step take."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any

from wallaroo.history.changes import Arrival
from wallaroo.history.rerun import Rerun
from wallaroo.model.application import Pipeline, WindowCompute
from wallaroo.user_code.callers import time_limited

Step = tuple[str, str]
"""Names of a pipeline and of one of its steps; the decoder and the encoder are steps, too."""
_LONG_NS = 50_000
"""A call that takes so long may have waited: then the clock of the process is read.

Reading it takes a system call, up to 1 µs, which would be more than many a function takes.
"""
_CALLS = 1_000
"""Calls of which the time of the measurement itself is found."""


class StepTimes:
    """Adds up the processor time of functions by step, of all threads of this process.

    The garbage collector waits until a function returns, as it waits for the end of a chunk in a
    worker.

    Args:
        overhead_ns: Nanoseconds that are subtracted from each call, as they are for the measurement
            itself; see `measured_overhead_ns`.

    Attributes:
        step: The step whose functions are called.
        messages: How many messages were begun since `taken` was called last.
    """

    def __init__(self, overhead_ns: int = 0) -> None:
        self.step: Step = ("", "")
        self.messages = 0
        self._overhead_ns = overhead_ns
        self._spent = Counter[Step]()
        self._begun = _now()

    def begin(self, messages: int) -> None:
        """Note that so many messages begin."""
        self.messages += messages
        self._begun = _now()

    @time_limited
    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap *function* to have its time added to that of the step."""

        def call(*arguments: Any) -> Any:
            gc.disable()
            began = perf_counter_ns()
            try:
                return function(*arguments)
            finally:
                self._add(perf_counter_ns() - began)
                gc.enable()

        return call

    def taken(self) -> tuple[int, dict[Step, int]]:
        """Messages, and nanoseconds by step, since it was called last."""
        taken = self.messages, dict(self._spent)
        self.messages, self._spent = 0, Counter()
        return taken

    def _add(self, elapsed: int) -> None:
        if elapsed >= _LONG_NS:
            (wall, processor), self._begun = self._begun, _now()
            waited = self._begun[0] - wall - (self._begun[1] - processor)
            if waited <= elapsed:  # else it was between calls; below 0 if several threads worked
                elapsed -= waited
        self._spent[self.step] += max(0, elapsed - self._overhead_ns)


def measured_overhead_ns() -> int:
    """What `StepTimes` measures for a function that does nothing, in nanoseconds."""
    times = StepTimes()
    call, found = times.timed(lambda _message: None), []
    for _ in range(_CALLS):
        call(None)
        found.append(sum(times.taken()[1].values()))
    return int(median(found))


def _now() -> tuple[int, int]:
    """Nanoseconds of a clock, and of processor time."""
    return perf_counter_ns(), process_time_ns()


class TimedRerun(Rerun):
    """Runs messages again, and adds up the time that functions take.

    Args:
        times: Adds it up.
        *arguments: Those of `Rerun`.
        **more: Those of `Rerun`.
    """

    def __init__(self, times: StepTimes, *arguments: Any, **more: Any) -> None:
        self._step_times = times
        super().__init__(*arguments, **more)

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return super()._guard(self._step_times.timed(function))

    def _begin(self, arrival: Arrival) -> None:
        super()._begin(arrival)
        self._step_times.begin(arrival.source is not None)

    def _call(
        self,
        pipeline: Pipeline,
        step: str,
        function: Callable[..., Any],
        *args: Any,
        about: Any = None,
    ) -> Any:
        self._step_times.step = pipeline.name, step
        return super()._call(pipeline, step, function, *args, about=about)

    def _aggregate(
        self, pipeline: Pipeline, step: WindowCompute, key: Any, message: Any
    ) -> tuple[list[Any], bool]:
        self._step_times.step = pipeline.name, step.name
        return super()._aggregate(pipeline, step, key, message)

    def _tick(self, name: str, key: Any) -> None:
        if name in self._windows:
            pipeline, step, _ = self._windows[name]
            self._step_times.step = pipeline.name, step.name
        super()._tick(name, key)
