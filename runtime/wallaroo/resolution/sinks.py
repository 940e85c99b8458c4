"""From the configuration of a sink to its normal form, which its connector makes."""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.connectors import AnyDeadLetters, AnySink
from wallaroo.api.functions import Encoder
from wallaroo.api.places import Place, place_of
from wallaroo.model.application import DeadLetters
from wallaroo.model.endpoints import Sink
from wallaroo.resolution.class_api import encoder_of
from wallaroo.resolution.problems import (
    Problems,
    describe,
    described_with,
    is_plain,
    missing_instance,
    name_of,
    not_a,
)
from wallaroo.wire.rows import encoding_rows

DEAD_LETTERS = "dead letters"
"""Name of the sink of dead letters."""


class SinkResolver:
    """Resolves the sinks of an application.

    Args:
        problems: Receives every mistake.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._sinks: dict[tuple[int, int], Sink] = {}
        """Sinks by the identity of their configuration, and how often a pipeline had it before."""
        self._names: dict[str, Place] = {}
        """Names of sinks, which distinguish them, and where they or their pipelines are."""
        self._claims: dict[Hashable, AnySink[Any]] = {}
        """Configurations by what only one of them can have."""

    def sink(self, declared: DeclaredPipeline, config: Any, again: int, name: str) -> Sink:
        """The sink of *config*, which the pipeline has had *again* times before.

        Pipelines that were merged or joined share it.
        """
        if (id(config), again) not in self._sinks:
            self._sinks[id(config), again] = self._sink(
                config, declared, self._name(config, name, declared.place)
            )
        return self._sinks[id(config), again]

    def dead_letters(self, config: Any, place: Place) -> DeadLetters | None:
        """Where *config*, which the application at *place* has, says that dead letters go.

        It is valid only if no problem was found.
        """
        if not isinstance(config, AnyDeadLetters):
            due = "expected wallaroo.KafkaDeadLetters(topic, brokers), or None"
            self._problems.add(place, f"dead_letters is {describe(config)}; {due}")
            return None
        name = self._name(config.sink, DEAD_LETTERS, config.sink.place)
        sink = self._resolved(config.sink, name, "dead_letters")
        if not isinstance(config.keep, bool):
            due = f"dead_letters: keep is {config.keep!r}; expected a bool"
            self._problems.add(config.sink.place, due)
        encoding = importlib.import_module(f"{sink.connector}.dead_letters")
        return DeadLetters(replace(sink, encode=encoding.encode), config.keep)

    def _name(self, config: Any, name: str, place: Place) -> str:
        """The name that *config* was given, or else *name*; no other sink may have it.

        It must not depend on the order of the pipelines, as what waits for a sink stays with it.
        """
        if isinstance(config, AnySink) and config.given_name is not None:
            name, place = str(config.given_name), config.place
            self._problems.check_name("a sink", config.given_name, place)
        elif name in self._names:
            place = self._names[name]
        if name in self._names:
            what = f"two sinks are named {name!r}; give one another name with named(…)"
            self._problems.add(place, what)
        self._names[name] = place
        return name

    def _sink(self, config: Any, declared: DeclaredPipeline, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        if not isinstance(config, AnySink):
            problem = f"{where}: {describe(config)} is not a sink configuration"
            self._problems.add(declared.place, problem + described_with(config, "sink"))
            return _Unresolved(name, str, declared.place)
        return self._resolved(config, name, where)

    def _resolved(self, config: AnySink[Any], name: str, where: str) -> Sink:
        context = SinkContext(name, config, where, self._problems, self._claims)
        resolving = importlib.import_module(f"{config.connector}.resolve")
        resolved: Sink = resolving.sink(config, context)
        return resolved


class SinkContext:
    """What a connector resolves the configuration of a sink with.

    Args:
        name: Name of the sink.
        config: The configuration.
        where: What messages begin with.
        problems: Receives every mistake.
        claims: Configurations by what only one of them can have.
    """

    def __init__(
        self,
        name: str,
        config: AnySink[Any],
        where: str,
        problems: Problems,
        claims: dict[Hashable, AnySink[Any]],
    ) -> None:
        self.name = name
        self._config = config
        self._where = where
        self._problems = problems
        self._claims = claims

    @property
    def place(self) -> Place:
        """Where the encoder is defined, or used if the application does not define it."""
        return place_of(self._config.encoder, self._config.place)

    def report(self, *problems: str) -> None:
        """Report mistakes in the configuration."""
        for problem in problems:
            self._problems.add(self._config.place, f"{self._where}: {problem}")

    def hint(self, *hints: str) -> None:
        """Report what is allowed in the configuration, but probably not meant."""
        for hint in hints:
            self._problems.add_hint(self._config.place, f"{self._where}: {hint}")

    def claimed(self, what: Hashable) -> AnySink[Any]:
        """The first configuration that has claimed *what*: this one, if no other has."""
        return self._claims.setdefault(what, self._config)

    def encode(self) -> Any:
        """What the encoder does."""
        encoder = self._config.encoder
        encode = encoder_of(encoder)
        if (due := missing_instance(encoder, "encode")) is not None:
            self.report(f"encoder {name_of(encoder)}: {due}")
        elif isinstance(encode, Encoder) or is_plain(encode):
            what = f"{self._where}: encoder {name_of(encode)}"
            encode = getattr(encode, "function", encode)
            self._problems.check_arity(encode, 1, what, "output", returns=True)
        else:
            self.report(not_a("encoder", encode, "expected a function"))
        return encode

    def encode_rows(self) -> Any:
        """What the encoder does, for a sink of rows."""
        encode = self.encode()
        return encoding_rows(encode) if callable(encode) else encode


@dataclass(frozen=True)
class _Unresolved(Sink):
    """What stands for a sink that is none, until that is reported."""

    @property
    def where(self) -> str:
        return "nowhere"
