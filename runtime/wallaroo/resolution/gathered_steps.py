"""Resolves steps that are called for many messages at a time: async and batched ones."""

from __future__ import annotations

import inspect
from typing import Any

from wallaroo.api.gathered_functions import AsyncComputation, BatchComputation
from wallaroo.api.places import Place, place_of
from wallaroo.api.retries import Retries
from wallaroo.dataflow.steps.awaiting import Awaiting
from wallaroo.dataflow.steps.batching import Batching
from wallaroo.dataflow.steps.gathering import Gathering
from wallaroo.model.application import Application, Compute
from wallaroo.resolution.problems import Problems, describe

GATHERED = (AsyncComputation, BatchComputation)
"""Classes of their declarations."""


def resolve_gathered(computation: Any, where: str, used_at: Place, problems: Problems) -> Compute:
    """Resolve an async or a batched step; valid only if no problem was found.

    Args:
        computation: The declaration, of a class in `GATHERED`.
        where: How messages refer to the pipeline.
        used_at: Where it is made a step.
        problems: Collects problems.
    """
    name, function = computation.name, computation.function
    place = place_of(computation, used_at)
    label, retry = f"{where}, step {name!r}", computation.retry
    if not isinstance(retry, Retries | None):
        sentence = f"{label}: retry is {describe(retry)}; expected wallaroo.retries(…)"
        problems.add(place, sentence)
        retry = None
    gathering: Gathering
    if isinstance(computation, AsyncComputation):
        problems.check_arity(function, 1, label, "message", if_async=None)
        if (what := _why_not_awaited(function)) is not None:
            problems.add(place, f"{label}: {what}")
        timeout_s = computation.timeout_ns / 1e9
        gathering = Awaiting(function, computation.concurrency, timeout_s, retry)
    else:
        problems.check_arity(function, 1, label, "list of messages", if_generator=None)
        gathering = Batching(function, name, computation.max, computation.wait_ns, retry)
    return Compute(name, gathering, multi=False, place=place, gathers=True)


def awaits(application: Application) -> bool:
    """Whether *application* has async steps."""
    return any(isinstance(function, Awaiting) for function in _functions(application))


def longest_wait(application: Application) -> tuple[int, float]:
    """Return for how many messages batches wait, and for how many seconds at most; 0 for none."""
    batching = [one for one in _functions(application) if isinstance(one, Batching)]
    waiting = [one for one in batching if one.wait_ns]
    most = max((one.max for one in waiting), default=0)
    return most, max((one.wait_ns for one in waiting), default=0) / 1e9


def _functions(application: Application) -> list[Any]:
    """Return the functions of all stateless steps."""
    return [
        step.function
        for pipeline in application.pipelines
        for step in pipeline.trunk.walk()
        if isinstance(step, Compute)
    ]


def _why_not_awaited(function: Any) -> str | None:
    if inspect.isasyncgenfunction(function):
        return (
            "@computation_async is given an async generator; return one message, or a list of "
            "them for a @computation_multi after it"
        )
    bare = inspect.unwrap(function) if inspect.isfunction(function) else function
    if inspect.isfunction(bare) and not inspect.iscoroutinefunction(bare):
        return "@computation_async is given a plain function; write async def, or use @computation"
    return None
