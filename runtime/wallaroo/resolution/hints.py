"""Hints at code that is valid and probably a mistake; each is given once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from wallaroo.model.application import Application, WindowCompute
from wallaroo.model.immutable import IMMUTABLE
from wallaroo.resolution.returned_values import is_made_of, returned_values


def hints_of(application: Application) -> Iterator[str]:
    """Yield each hint, with its line of user code; calls `initial_accumulator` of aggregations."""
    yield from application.hints
    for pipeline in application.pipelines:
        for step in pipeline.trunk.walk():
            if not isinstance(step, WindowCompute):
                continue
            problem = problem_of_accumulator(getattr(step.windows, "aggregation", None))
            if problem is not None:
                where = f"pipeline {pipeline.name!r}, windows over {step.name}"
                yield f"{step.place}: {where}: {problem}"


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
