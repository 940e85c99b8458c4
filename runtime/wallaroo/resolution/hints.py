"""Hints at code that is valid and probably a mistake; each is given once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from wallaroo.model.application import Application, WindowCompute
from wallaroo.model.immutable import IMMUTABLE
from wallaroo.resolution.returned_values import is_made_of, returned_values

_NUMBERED = re.compile(r"#\d+$")


def hints_of(application: Application, *, is_saved: bool = True) -> Iterator[str]:
    """Yield each hint, with its line of user code; calls `initial_accumulator` of aggregations.

    Args:
        application: The application.
        is_saved: Whether its state is saved, so that changed code resumes with it.
    """
    yield from application.hints
    if is_saved:
        yield from _numbered_states(application)
    for pipeline in application.pipelines:
        for step in pipeline.trunk.walk():
            if not isinstance(step, WindowCompute):
                continue
            problem = problem_of_accumulator(getattr(step.windows, "aggregation", None))
            if problem is not None:
                where = f"pipeline {pipeline.name!r}, windows over {step.name}"
                yield f"{step.place}: {where}: {problem}"


def _numbered_states(application: Application) -> Iterator[str]:
    """Yield a hint at each state whose name depends on the order of the code."""
    found: dict[str, str] = {}
    for pipeline in application.pipelines:
        for step in pipeline.trunk.walk():
            state = getattr(step, "partition", None)
            if state is not None and _NUMBERED.search(state):
                found.setdefault(
                    state,
                    f"{step.place}: pipeline {pipeline.name!r}: the state of {step.name!r} is "
                    f"called {state!r} by the order of the code: if such steps change places, so "
                    "do their entities; give each a name of its own",
                )
    yield from found.values()


def problem_of_accumulator(aggregation: Any) -> str | None:
    """Return what is wrong with the accumulators of *aggregation*, which is called for one.

    Example:
        >>> class Count:
        ...     def initial_accumulator(self):
        ...         return 0
        >>> problem_of_accumulator(Count())
        'initial_accumulator returns 0, which update cannot change, and what update returns is \
ignored; return an object that can change, such as a list'
    """
    try:
        accumulator = aggregation.initial_accumulator()
    except (Exception, SystemExit):  # the first message will tell
        return None
    if type(accumulator) in IMMUTABLE:
        return (
            f"initial_accumulator returns {accumulator!r}, which update cannot change, and what "
            "update returns is ignored; return an object that can change, such as a list"
        )
    update = getattr(aggregation, "update", None)
    *_, changed = ["", *inspect.signature(update).parameters] if callable(update) else [""]
    if any(not is_made_of(value, changed) for value in returned_values(update) or ()):
        return f"what update returns is ignored; let it change {changed}"
    return None
