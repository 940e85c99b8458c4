"""From the configuration of a sink to its normal form: a method for each class of them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Protocol

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.configs import (
    FileSinkConfig,
    TCPSinkConfig,
)
from wallaroo.api.connectors import OutputSink, SinkConfig
from wallaroo.api.functions import Encoder
from wallaroo.api.kafka import KafkaSinkConfig
from wallaroo.api.places import Place, place_of
from wallaroo.api.row_files import ParquetSinkConfig
from wallaroo.api.tables import SQLSinkConfig
from wallaroo.api.web import SSESinkConfig, WebhookSinkConfig
from wallaroo.model import parquet, sse, tables, webhook
from wallaroo.model.class_api import encoder_of
from wallaroo.model.endpoints import CustomSink, Sink, TCPSink
from wallaroo.model.file_connectors import FileSink
from wallaroo.model.kafka import (
    KafkaSink,
    encoding_records,
    problems_of,
    topic_of,
)
from wallaroo.model.problems import (
    Problems,
    describe,
    described_with,
    missing_instance,
    name_of,
    not_decorated,
)


class _Encoding(Protocol):
    """A configuration of a sink."""

    encoder: Any
    place: Place


class SinkResolver:
    """Resolves the sinks of an application.

    Args:
        problems: Receives every mistake.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._sinks: dict[tuple[int, int], Sink] = {}
        """Sinks by the identity of their configuration and their place in `to_sinks`."""
        self._names: set[str] = set()
        """Names of sinks, which distinguish them in metrics."""
        self._written: dict[Path, FileSinkConfig[Any]] = {}
        """Sinks by the file that they write."""

    def sink(self, declared: DeclaredPipeline, config: Any, number: int, name: str) -> Sink:
        """The sink of *config*: pipelines that were merged share it."""
        if (id(config), number) not in self._sinks:
            self._sinks[id(config), number] = self._sink(config, declared, self._free(name))
        return self._sinks[id(config), number]

    def _free(self, name: str) -> str:
        """*name*, or a variant of it that no other sink has."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name} ({number})"
        self._names.add(free)
        return free

    @functools.singledispatchmethod
    def _sink(self, config: Any, declared: DeclaredPipeline, name: str) -> Sink:
        """The sink that *config* describes: one method for each class of configurations."""
        problem = f"pipeline {declared.name!r}: {describe(config)} is not a sink configuration"
        self._problems.add(declared.place, problem + described_with(config, "sink"))
        return TCPSink(name, str, declared.place, "", 0)

    @_sink.register(TCPSinkConfig)
    def _tcp_sink(self, config: TCPSinkConfig[Any], declared: DeclaredPipeline, name: str) -> Sink:
        encode, place = self._encode(config, f"pipeline {declared.name!r}")
        return TCPSink(name, encode, place, config.host, config.port, config.sequenced)

    @_sink.register(FileSinkConfig)
    def _file_sink(
        self, config: FileSinkConfig[Any], declared: DeclaredPipeline, name: str
    ) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        return CustomSink(name, encode, place, self._file_writer(config, where))

    @_sink.register(SinkConfig)
    def _custom_sink(self, config: SinkConfig[Any], declared: DeclaredPipeline, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        if not isinstance(config.sink, OutputSink):
            problem = (
                f"{where}: {describe(config.sink)} is not a sink; "
                "pass an instance of an OutputSink subclass"
            )
            self._problems.add(config.place, problem)
        return CustomSink(name, encode, place, config.sink)

    @_sink.register(KafkaSinkConfig)
    def _kafka_sink(
        self, config: KafkaSinkConfig[Any], declared: DeclaredPipeline, name: str
    ) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        for problem in problems_of(config):
            self._problems.add(config.place, f"{where}: {problem}")
        if callable(encode):
            encode = encoding_records(encode)
        return KafkaSink(name, encode, place, topic_of(config), config.transactions)

    @_sink.register(SSESinkConfig)
    def _sse_sink(self, config: SSESinkConfig[Any], declared: DeclaredPipeline, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        for problem in sse.problems_of(config):
            self._problems.add(config.place, f"{where}: {problem}")
        return sse.sse_sink(name, encode, config, place)

    @_sink.register(WebhookSinkConfig)
    def _webhook_sink(
        self, config: WebhookSinkConfig[Any], declared: DeclaredPipeline, name: str
    ) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        found = list(webhook.problems_of(config))
        for problem in found:
            self._problems.add(config.place, f"{where}: {problem}")
        for hint in () if found else webhook.hints_of(config):
            self._problems.add_hint(config.place, f"{where}: {hint}")
        return webhook.webhook_sink(name, encode, config, place)

    @_sink.register(SQLSinkConfig)
    def _sql_sink(self, config: SQLSinkConfig[Any], declared: DeclaredPipeline, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        for problem in tables.problems_of(config):
            self._problems.add(config.place, f"{where}: {problem}")
        return tables.sql_sink(name, encode, config, place)

    @_sink.register(ParquetSinkConfig)
    def _parquet_sink(
        self, config: ParquetSinkConfig[Any], declared: DeclaredPipeline, name: str
    ) -> Sink:
        where = f"pipeline {declared.name!r}"
        encode, place = self._encode(config, where)
        for problem in parquet.problems_of(config):
            self._problems.add(config.place, f"{where}: {problem}")
        return parquet.parquet_sink(name, encode, config, place)

    def _encode(self, config: _Encoding, where: str) -> tuple[Any, Place]:
        """What the encoder of *config* does, and where it is defined."""
        encode, place = encoder_of(config.encoder), place_of(config.encoder, config.place)
        if (due := missing_instance(config.encoder, "encode")) is not None:
            self._problems.add(config.place, f"{where}: encoder {name_of(config.encoder)}: {due}")
        elif isinstance(encode, Encoder):
            self._problems.check_arity(
                encode.function, 1, f"{where}: encoder {name_of(encode)}", "output"
            )
            encode = encode.function
        else:
            problem = not_decorated("encoder", encode, "encode")
            self._problems.add(config.place, f"{where}: {problem}")
        return encode, place

    def _file_writer(self, config: FileSinkConfig[Any], where: str) -> FileSink:
        if config.framing not in {"none", "lines"}:
            problem = f"{where}: framing is {config.framing!r}; expected 'none' or 'lines'"
            self._problems.add(config.place, problem)
        other = self._written.setdefault(config.path.resolve(), config)
        if other is not config:
            problem = f"{where}: {config.path} is written by the sink at {other.place} already"
            self._problems.add(config.place, problem)
        return FileSink(config.path, lines=config.framing == "lines")
