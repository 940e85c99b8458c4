"""The functions of an application, for profiles: which step each belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wallaroo.api.places import place_of
from wallaroo.model.application import (
    Application,
    Compute,
    KeyBy,
    StateCompute,
    Step,
    WindowCompute,
)
from wallaroo.model.joins import Join, arrival

_OF_AGGREGATIONS = ("initial_accumulator", "update", "combine", "output")


def functions_of(application: Application) -> dict[str, str]:
    """Pipeline and step of each function of *application*, by its location in the code."""
    functions: dict[str, str] = {}
    for pipeline in application.pipelines:
        source = pipeline.source
        parts = [("decoder", source.place), ("decoder", place_of(source.decode))]
        for step in pipeline.trunk.walk():
            parts.append((step.name, step.place))
            parts += [(step.name, place_of(one)) for one in _functions_of(step)]
            if (key := getattr(step, "key", None)) is not None:
                parts.append((f"key of {step.name}", place_of(key)))
        for sink in pipeline.sinks:
            encoder = pipeline.encoder_of(sink)
            parts += [(encoder, sink.place), (encoder, place_of(sink.encode))]
        for name, place in parts:
            functions.setdefault(str(place), f"{pipeline.name} · {name}")
    return functions


def _functions_of(step: Step) -> Iterator[Any]:
    """The functions of *step*, some of which are not where it is defined."""
    if isinstance(step, Compute):
        yield step.function
    elif isinstance(step, StateCompute):
        yield from filter(None, (step.function, step.on_timer, step.event_time))
    elif isinstance(step, WindowCompute):
        aggregation = getattr(step.windows, "aggregation", None)
        for name in _OF_AGGREGATIONS:
            if (method := getattr(aggregation, name, None)) is not None:
                yield method
        if (event_time := getattr(step.windows, "event_time", None)) is not None:
            yield event_time
        if isinstance(step.windows, Join):
            times = (step.windows.left_time, step.windows.right_time)
            yield from (time for time in times if time is not arrival)
    elif isinstance(step, KeyBy):
        yield step.key
