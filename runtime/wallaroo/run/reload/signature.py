"""The parts of an application that its gateway uses, to be compared across code changes."""

from __future__ import annotations

import dataclasses
from typing import Any

from wallaroo.model.application import Application
from wallaroo.model.endpoints import Sink, Source

_OF_WORKERS = {"decode", "encode", "place"}
"""Fields of sources and sinks that a gateway does not use."""


def serves_as_before(before: Application, now: Application) -> bool:
    """Whether a gateway of *before* can go on as one of *now*.

    It cannot if sources, sinks or the names of pipelines differ, or if it runs code of the
    application, such as a source's: that may have changed.
    """
    return not (_runs_code(before) or _runs_code(now)) and _known(before) == _known(now)


def _known(application: Application) -> Any:
    return (
        [_endpoint(source) for source in application.sources],
        [_endpoint(sink) for sink in application.sinks],
        application.dead_letters is None or application.dead_letters.keeps,
        [(one.name, application.sources.index(one.source)) for one in application.pipelines],
    )


def _endpoint(endpoint: Source | Sink) -> tuple[type, dict[str, Any]]:
    known: dict[str, Any] = {
        field.name: getattr(endpoint, field.name)
        for field in dataclasses.fields(endpoint)
        if field.name not in _OF_WORKERS
    }
    for name in ("reader", "writer"):
        if name in known:
            known[name] = vars(known[name])
    return type(endpoint), known


def _runs_code(application: Application) -> bool:
    return any(source.time is not None for source in application.sources) or any(
        one.runs_code for one in (*application.sources, *application.sinks)
    )
