"""Calls of computations that are tried again."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wallaroo.api.retries import Retries
from wallaroo.dataflow.steps.gathering import Gathering
from wallaroo.model.application import Application, Branch, Compute, Step, WindowCompute
from wallaroo.user_code.callers import one_call


@dataclass  # not frozen: it takes the name of its function
class Retrying:
    """A function that is tried again if it raises; for time limits, all attempts are one call."""

    function: Callable[[Any], Any]
    policy: Retries
    pause: Callable[[float], None] = time.sleep
    """Waits for a number of seconds."""

    @one_call
    def __call__(self, message: Any) -> Any:
        """Return the result of the first attempt that succeeds.

        Raises:
            Exception: That of the last attempt; a note tells how many there were.
        """
        attempt = 0
        said: list[dict[Any, int]] = [{}]  # for `callers.is_repeated`
        while True:
            try:
                return self.function(message)
            except self.policy.on as error:
                if attempt == self.policy.times:
                    error.add_note(f"attempts: {attempt + 1}")
                    raise
            self.pause(self.policy.pause_s(attempt))
            attempt += 1
            said.append({})


def retrying(function: Callable[[Any], Any], policy: Retries | None) -> Callable[[Any], Any]:
    """Wrap *function* to be tried again as *policy* says; None for not at all.

    Example:
        >>> from wallaroo.api.retries import retries
        >>> results = iter([ConnectionError(), "fine"])
        >>> def ask(message):
        ...     if isinstance(result := next(results), Exception):
        ...         raise result
        ...     return result
        >>> retrying(ask, retries(1, backoff=0))("message")
        'fine'
    """
    if policy is None:
        return function
    retried = Retrying(function, policy)
    functools.update_wrapper(retried, function, updated=())
    return retried


def without_pauses(application: Application) -> Application:
    """Return a copy of *application* that tries again at once, for simulations."""

    def at_once(step: Step) -> Step:
        if isinstance(step, Compute) and isinstance(step.function, Retrying):
            function = dataclasses.replace(step.function, pause=lambda _seconds: None)
            return dataclasses.replace(step, function=function)
        if isinstance(step, Compute) and isinstance(step.function, Gathering):
            return dataclasses.replace(step, function=step.function.without_pauses())
        if isinstance(step, WindowCompute) and step.late is not None:
            return dataclasses.replace(step, late=of(step.late))
        return step

    def of(branch: Branch) -> Branch:
        steps, forks = tuple(map(at_once, branch.steps)), tuple(map(of, branch.forks))
        return dataclasses.replace(branch, steps=steps, forks=forks)

    pipelines = tuple(
        dataclasses.replace(pipeline, trunk=of(pipeline.trunk))
        for pipeline in application.pipelines
    )
    return dataclasses.replace(application, pipelines=pipelines)
