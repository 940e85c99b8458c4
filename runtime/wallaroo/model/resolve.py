"""From the application as its author wrote it to its normal form, or to all its mistakes."""

from __future__ import annotations

from typing import Any

from wallaroo.api.builder import DeclaredApplication, DeclaredPipeline
from wallaroo.api.configs import TCPSinkConfig, TCPSourceConfig
from wallaroo.api.functions import Decoder, Encoder
from wallaroo.api.place import Place, place_of
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application, Pipeline, Sink, Source
from wallaroo.model.branch import BranchResolver
from wallaroo.model.classes import decoder_of, encoder_of
from wallaroo.model.framing import DEFAULT_MAX_FRAME, Framing
from wallaroo.model.problems import Problems, described, named


def resolve(declared: object, max_frame: int = DEFAULT_MAX_FRAME) -> Application:
    """Give *declared*, what `application_setup` returned, its meaning.

    Args:
        declared: Result of `ApplicationBuilder.build()`.
        max_frame: Largest payload that its sources accept, in bytes.

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
    application = _Resolver(max_frame, problems).application(declared)
    if problems.found:
        msg = f"the application {declared.name!r} is not well formed:"
        raise ApplicationError(msg, problems.found)
    return application


class _Resolver:
    """Walks the declaration once; problems are collected on the way."""

    def __init__(self, max_frame: int, problems: Problems) -> None:
        self._max_frame = max_frame
        self._problem = problems.add
        self._check_arity = problems.check_arity
        self._branches = BranchResolver(problems)
        self._sinks: dict[tuple[int, int], Sink] = {}
        """Sinks by the identity of their configuration and their place in `to_sinks`."""

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
        return Application(declared.name, tuple(pipelines), dict(self._branches.partitions))

    def _pipeline(self, declared: DeclaredPipeline) -> Pipeline:
        if not declared.ended:
            self._problem(
                declared.place,
                f"pipeline {declared.name!r} has no end: finish it with to_sink(…) or done()",
            )
        for place in declared.after_end:
            self._problem(place, f"pipeline {declared.name!r} has a step after its end")
        source = self._source(declared)
        trunk = self._branches.trunk(declared)
        many = len(declared.sinks) > 1
        sinks = tuple(
            self._shared_sink(
                declared, config, number, f"{declared.name} {number}" if many else declared.name
            )
            for number, config in enumerate(declared.sinks, 1)
        )
        return Pipeline(declared.name, source, trunk, sinks, declared.place)

    def _source(self, declared: DeclaredPipeline) -> Source:
        where = f"pipeline {declared.name!r}"
        config = declared.source
        if not isinstance(config, TCPSourceConfig):
            self._problem(
                declared.place, f"{where}: {described(config)} is no source configuration"
            )
            config = TCPSourceConfig("", 0, None)
        framing, decode = Framing(4, ">I", self._max_frame), config.decoder
        try:
            decode = decoder_of(decode)
            if isinstance(decode, Decoder):
                framing = Framing(decode.header_length, decode.length_fmt, self._max_frame)
        except ValueError as error:
            self._problem(place_of(decode), f"{where}: decoder {named(decode)}: {error}")
            decode = Decoder(bytes, 4, ">I")
        if isinstance(decode, Decoder):
            self._check_arity(decode.function, 1, f"{where}: decoder {named(decode)}", "payload")
            decode = decode.function
        else:
            self._problem(
                config.place, f"{where}: {described(decode)} is no decoder; decorate it @decoder"
            )
        return Source(
            declared.name, config.host, config.port, framing, decode, place_of(config.decoder)
        )

    def _shared_sink(self, declared: DeclaredPipeline, config: Any, number: int, name: str) -> Sink:
        """The sink of *config*: pipelines that were merged share it."""
        if (id(config), number) not in self._sinks:
            self._sinks[id(config), number] = self._sink(declared, config, name)
        return self._sinks[id(config), number]

    def _sink(self, declared: DeclaredPipeline, config: Any, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        if not isinstance(config, TCPSinkConfig):
            self._problem(declared.place, f"{where}: {described(config)} is no sink configuration")
            return Sink(name, "", 0, str, declared.place)
        encode = encoder_of(config.encoder)
        if isinstance(encode, Encoder):
            self._check_arity(encode.function, 1, f"{where}: encoder {named(encode)}", "output")
            encode = encode.function
        else:
            self._problem(
                config.place, f"{where}: {described(encode)} is no encoder; decorate it @encoder"
            )
        return Sink(
            name, config.host, config.port, encode, place_of(config.encoder), config.sequenced
        )
