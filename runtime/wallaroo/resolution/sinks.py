"""From the configuration of a sink to its normal form, which its connector makes."""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.connectors import AnySink
from wallaroo.api.functions import Encoder
from wallaroo.api.places import Place, place_of
from wallaroo.model.endpoints import Sink
from wallaroo.resolution.class_api import encoder_of
from wallaroo.resolution.problems import (
    Problems,
    describe,
    described_with,
    missing_instance,
    name_of,
    not_decorated,
)
from wallaroo.wire.rows import encoding_rows


class SinkResolver:
    """Resolves the sinks of an application.

    Args:
        problems: Receives every mistake.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._sinks: dict[tuple[int, int], Sink] = {}
        """Sinks by the identity of their configuration, and how often a pipeline had it before."""
        self._names: set[str] = set()
        """Names of sinks, which distinguish them in metrics."""
        self._claims: dict[Hashable, AnySink[Any]] = {}
        """Configurations by what only one of them can have."""

    def sink(self, declared: DeclaredPipeline, config: Any, again: int, name: str) -> Sink:
        """The sink of *config*, which the pipeline has had *again* times before.

        Pipelines that were merged or joined share it.
        """
        if (id(config), again) not in self._sinks:
            self._sinks[id(config), again] = self._sink(config, declared, self._free(name))
        return self._sinks[id(config), again]

    def _free(self, name: str) -> str:
        """*name*, or a variant of it that no other sink has."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name} ({number})"
        self._names.add(free)
        return free

    def _sink(self, config: Any, declared: DeclaredPipeline, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        if not isinstance(config, AnySink):
            problem = f"{where}: {describe(config)} is not a sink configuration"
            self._problems.add(declared.place, problem + described_with(config, "sink"))
            return _Unresolved(name, str, declared.place)
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
        elif isinstance(encode, Encoder):
            what = f"{self._where}: encoder {name_of(encode)}"
            self._problems.check_arity(encode.function, 1, what, "output", returns=True)
            encode = encode.function
        else:
            self.report(not_decorated("encoder", encode, "encode"))
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
