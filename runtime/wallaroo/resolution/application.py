"""Resolves a declared application to its normal form, or reports all its problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wallaroo.api.builder import DeclaredApplication, DeclaredPipeline
from wallaroo.api.places import Place
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application, Pipeline, Serialization
from wallaroo.model.endpoints import Endpoint, Sink
from wallaroo.model.order import hints_of_order
from wallaroo.model.tables import problems_of_tables
from wallaroo.resolution.problems import Problems, describe
from wallaroo.resolution.sinks import SinkResolver
from wallaroo.resolution.sources import SourceResolver
from wallaroo.resolution.steps import BranchResolver
from wallaroo.wire.framing import DEFAULT_MAX_FRAME

_EVERY_HOST = {"", "0.0.0.0", "::"}
"""Hosts that stand for all addresses of the machine."""


def resolve(
    declared: object,
    max_frame: int = DEFAULT_MAX_FRAME,
    serialization: Serialization | None = None,
    place: Place | None = None,
) -> Application:
    """Resolve *declared*, the result of `application_setup`.

    Args:
        declared: Result of `ApplicationBuilder.build()` or `build_application`.
        max_frame: Maximum length of a payload that its sources accept, in bytes.
        serialization: Custom serialization of the application; None for pickle.
        place: Where `application_setup` is defined, for messages.

    Raises:
        ApplicationError: The application is invalid; `problems` lists all problems, each with the
            pipeline, the step and the line of user code.
    """
    if not isinstance(declared, DeclaredApplication):
        where = "" if place is None else f"{place}: "
        msg = (
            f"{where}application_setup returned {describe(declared)}; expected an application: "
            "end it with `return wallaroo.build_application(…)` or `return builder.build()`"
        )
        raise ApplicationError(msg)
    problems = Problems()
    application = _Resolver(max_frame, serialization, problems).application(declared)
    if problems.messages:
        msg = f"the application {declared.name!r} is invalid:"
        raise ApplicationError(msg, problems.messages)
    return application


class _Resolver:
    """Walks the declarations once and collects problems."""

    def __init__(
        self, max_frame: int, serialization: Serialization | None, problems: Problems
    ) -> None:
        self._serialization = serialization
        self._problems = problems
        self._problem = problems.add
        self._sources = SourceResolver(problems, max_frame, serialization)
        self._sinks = SinkResolver(problems)
        self._branches = BranchResolver(problems, pickles=serialization is None)

    def application(self, declared: DeclaredApplication) -> Application:
        """Return the normal form, which is valid only if no problem was found."""
        for place in declared.before_pipeline:
            self._problem(place, "there is a step before the first new_pipeline(…)")
        if not declared.pipelines:
            what = (
                "the application has no pipeline; call new_pipeline(…), or pass pipelines to "
                "build_application(…)"
            )
            self._problem(declared.place, what)
        self._problems.check_name("the application", declared.name, declared.place)
        pipelines: list[Pipeline] = []
        seen: dict[str, Place] = {}
        for declared_pipeline in declared.pipelines:
            name, place = declared_pipeline.name, declared_pipeline.place
            if name in seen:
                self._problem(
                    place, f"two pipelines are named {name!r}: the other is at {seen[name]}"
                )
            self._problems.check_name("a pipeline", name, place)
            seen.setdefault(name, place)
            pipelines.append(self._pipeline(declared_pipeline))
        dead_letters = None
        if declared.dead_letters is not None:
            dead_letters = self._sinks.dead_letters(declared.dead_letters, declared.place)
        pipelines = [
            replace(one, source=one.source.storing_records())
            if one.keeps_inputs or dead_letters is not None
            else one
            for one in pipelines
        ]
        self._check_ends(declared.pipelines)
        partitions = self._branches.states.timed_partitions()
        for partition in partitions.values():
            if self._serialization is not None and partition.versions is not None:
                self._problem(
                    partition.place,
                    f"state {partition.name!r} has migrations, but the application's own "
                    "deserialize loads its entities: handle versions there",
                )
        found = Application(
            declared.name,
            tuple(pipelines),
            partitions,
            self._serialization,
            dead_letters=dead_letters,
        )
        self._check_ports(found)
        self._check_pairs(found)
        for place, problem in problems_of_tables(found):
            self._problem(place, problem)
        for place, hint in hints_of_order(found):
            self._problems.add_hint(place, hint)
        return replace(found, hints=tuple(self._branches.hints))

    def _check_ports(self, application: Application) -> None:
        """Report sources and sinks that would listen where another one does."""
        places = {
            end: pipeline.place
            for pipeline in reversed(application.pipelines)
            for end in (*pipeline.sinks, pipeline.source)
        }
        taken: dict[int, list[tuple[Endpoint, str]]] = {}
        for end in (*application.sources, *application.sinks):
            host, port = end.address or ("", 0)
            others = taken.setdefault(int(port), []) if str(port).isdecimal() and int(port) else []
            for other, its_host in others:
                if host == its_host or _EVERY_HOST & {host, its_host}:
                    sentence = f"{end.name!r} listens on {end.where}, as does {other.name!r}"
                    self._problem(places[end], f"{sentence}; give each a port of its own")
                    break
            others.append((end, host))

    def _check_pairs(self, application: Application) -> None:
        """Report sources and sinks that cannot be in one application."""
        for source in application.sources:
            for sink in application.sinks:
                if (problem := source.problem_beside(sink)) is not None:
                    self._problem(source.place, problem)

    def _check_ends(self, pipelines: Sequence[DeclaredPipeline]) -> None:
        """Report the first call after the end of each pipeline, once for merged ones."""
        names: dict[Place, list[str]] = {}
        for pipeline in pipelines:
            for place in pipeline.after_end[:1]:
                names.setdefault(place, []).append(pipeline.name)
        for place, ended in names.items():
            what = f"pipeline {ended[0]!r} has a step after its end"
            if len(ended) > 1:
                which = ", ".join(map(repr, ended))
                what = (
                    f"pipelines {which} are merged or joined after an end: call merge(…) and "
                    "join(…) before to_sink(…), to_sinks(…) and done(), which then end all of them"
                )
            self._problem(place, what)

    def _pipeline(self, declared: DeclaredPipeline) -> Pipeline:
        if not declared.ended:
            self._problem(
                declared.place,
                f"pipeline {declared.name!r} has no end: finish it with to_sink(…) or done()",
            )
        source = self._sources.source(declared)
        trunk = self._branches.trunk(declared)
        sinks: list[Sink] = []
        for number, config in enumerate(declared.sinks, 1):
            name = f"{declared.name} {number}" if number > 1 else declared.name
            again = sum(config is other for other in declared.sinks[: number - 1])
            sinks.append(self._sinks.sink(declared, config, again, name))
        return Pipeline(declared.name, source, trunk.numbered(), tuple(sinks), declared.place)
