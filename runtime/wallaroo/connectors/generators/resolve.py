"""Generators in the normal form of an application."""

from __future__ import annotations

import inspect
from typing import Any

from wallaroo.api.places import place_of
from wallaroo.connectors.generators.config import GenSourceConfig
from wallaroo.connectors.generators.source import GeneratorSource
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.resolution.problems import describe
from wallaroo.resolution.sources import SourceContext


def source(config: GenSourceConfig[Any], context: SourceContext) -> CustomSource:
    """The source that *config* describes."""
    _check(config.gen, context)
    reader, decode = GeneratorSource(config.gen, context.values), context.values.deserialize
    place = place_of(config.gen, config.place)
    return CustomSource(context.name, context.frames, decode, place, reader, gives_messages=True)


def _check(gen: Any, context: SourceContext) -> None:
    methods = (("initial_value", 0), ("apply", 1))
    if inspect.isclass(gen) or not all(callable(getattr(gen, m, None)) for m, _ in methods):
        context.report(
            f"{describe(gen)} is not a generator; "
            "expected an object with initial_value() and apply(previous)"
        )
        return
    for method, count in methods:
        takes = "previous" if count else ""
        context.check_arity(getattr(gen, method), count, f"generator's {method}", takes)
