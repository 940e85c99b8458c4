"""From the application as its author wrote it to its normal form, or to all its mistakes."""

from __future__ import annotations

from wallaroo.api.builder import DeclaredApplication, DeclaredPipeline
from wallaroo.api.places import Place
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application, Pipeline, Serialization
from wallaroo.model.branch import BranchResolver
from wallaroo.model.endpoints import EndpointResolver
from wallaroo.model.problems import Problems, described
from wallaroo.wire.framing import DEFAULT_MAX_FRAME


def resolve(
    declared: object,
    max_frame: int = DEFAULT_MAX_FRAME,
    serialization: Serialization | None = None,
) -> Application:
    """Give *declared*, what `application_setup` returned, its meaning.

    Args:
        declared: Result of `ApplicationBuilder.build()`.
        max_frame: Largest payload that its sources accept, in bytes.
        serialization: Its own way to turn objects into bytes; None for pickle.

    Raises:
        ApplicationError: Something in it is wrong; `problems` lists all of it, each with the
            pipeline, the step and the line of user code.
    """
    if not isinstance(declared, DeclaredApplication):
        msg = (
            f"application_setup returned {described(declared)}, "
            "and an application is due: end it with `return builder.build()`"
        )
        raise ApplicationError(msg)
    problems = Problems()
    application = _Resolver(max_frame, serialization, problems).application(declared)
    if problems.found:
        msg = f"the application {declared.name!r} is not well formed:"
        raise ApplicationError(msg, problems.found)
    return application


class _Resolver:
    """Walks the declaration once; problems are collected on the way."""

    def __init__(
        self, max_frame: int, serialization: Serialization | None, problems: Problems
    ) -> None:
        self._serialization = serialization
        self._problem = problems.add
        self._endpoints = EndpointResolver(problems, max_frame, serialization)
        self._branches = BranchResolver(problems)

    def application(self, declared: DeclaredApplication) -> Application:
        """The normal form; sound only where no problem was found."""
        for place in declared.before_pipeline:
            self._problem(place, "a step before the first new_pipeline(…)")
        if not declared.pipelines:
            self._problem(declared.place, "the application has no pipeline; add new_pipeline(…)")
        pipelines: list[Pipeline] = []
        seen: dict[str, Place] = {}
        for declared_pipeline in declared.pipelines:
            name, place = declared_pipeline.name, declared_pipeline.place
            if name in seen:
                self._problem(
                    place, f"two pipelines are named {name!r}: the other is at {seen[name]}"
                )
            seen.setdefault(name, place)
            pipelines.append(self._pipeline(declared_pipeline))
        partitions = dict(self._branches.partitions)
        return Application(declared.name, tuple(pipelines), partitions, self._serialization)

    def _pipeline(self, declared: DeclaredPipeline) -> Pipeline:
        if not declared.ended:
            self._problem(
                declared.place,
                f"pipeline {declared.name!r} has no end: finish it with to_sink(…) or done()",
            )
        for place in declared.after_end:
            self._problem(place, f"pipeline {declared.name!r} has a step after its end")
        source = self._endpoints.source(declared)
        trunk = self._branches.trunk(declared)
        many = len(declared.sinks) > 1
        sinks = tuple(
            self._endpoints.sink(
                declared, config, number, f"{declared.name} {number}" if many else declared.name
            )
            for number, config in enumerate(declared.sinks, 1)
        )
        return Pipeline(declared.name, source, trunk, sinks, declared.place)
