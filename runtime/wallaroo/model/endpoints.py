"""From the configurations of sources and sinks to their normal form.

Each class of configurations has its own method of `EndpointResolver`.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.configs import (
    FileSinkConfig,
    FileSourceConfig,
    GenSourceConfig,
    HTTPSourceConfig,
    TCPSinkConfig,
    TCPSourceConfig,
)
from wallaroo.api.connectors import MessageSource, OutputSink, SinkConfig, SourceConfig
from wallaroo.api.functions import Decoder, Encoder
from wallaroo.api.kafka import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.api.places import Place, place_of
from wallaroo.api.row_files import CSVSourceConfig, ParquetSinkConfig, ParquetSourceConfig
from wallaroo.api.tables import SQLSinkConfig
from wallaroo.api.web import SSESinkConfig, WebhookSinkConfig
from wallaroo.model import parquet, sse, tables, webhook
from wallaroo.model.application import (
    CustomSink,
    CustomSource,
    HTTPSource,
    Serialization,
    Sink,
    Source,
    TCPSink,
    TCPSource,
)
from wallaroo.model.class_api import decoder_of, encoder_of
from wallaroo.model.file_connectors import FileSink, FileSource
from wallaroo.model.generators import GeneratorSource
from wallaroo.model.kafka import (
    KafkaSink,
    KafkaSource,
    decoding_records,
    encoding_records,
    problems_of,
    start_of,
    topic_of,
)
from wallaroo.model.problems import Problems, describe, missing_instance, name_of
from wallaroo.model.row_files import CSVRows, ParquetRows, RowFiles, decoding_rows
from wallaroo.wire.framing import Framing
from wallaroo.wire.unframed import Delimited, FixedLength


class _Encoding(Protocol):
    """A configuration of a sink."""

    encoder: Any
    place: Place


_PICKLE = Serialization(functools.partial(pickle.dumps, protocol=5), pickle.loads)


class EndpointResolver:
    """Resolves the sources and sinks of an application.

    Args:
        problems: Receives every mistake.
        max_frame: Largest payload in bytes, for sources that set no limit.
        serialization: The application's, for the values of generators; None for pickle.
    """

    def __init__(
        self, problems: Problems, max_frame: int, serialization: Serialization | None
    ) -> None:
        self._problems = problems
        self._max_frame = max_frame
        self._frames = Framing(4, ">I", max_frame)
        """How payloads that do not arrive in frames lie in the journal."""
        self._values = serialization or _PICKLE
        self._sinks: dict[tuple[int, int], Sink] = {}
        """Sinks by the identity of their configuration and their place in `to_sinks`."""
        self._names: set[str] = set()
        """Names of sinks, which distinguish them in metrics."""
        self._written: dict[Path, FileSinkConfig[Any]] = {}
        """Sinks by the file that they write."""

    def source(self, declared: DeclaredPipeline) -> Source:
        """The source of a pipeline; valid only if no problem was found."""
        return self._source(declared.source, declared, f"pipeline {declared.name!r}")

    @functools.singledispatchmethod
    def _source(self, config: Any, declared: DeclaredPipeline, where: str) -> Source:
        """The source that *config* describes: one method for each class of configurations."""
        problem = f"{where}: {describe(config)} is not a source configuration"
        self._problems.add(declared.place, problem + _described_with(config, "source"))
        return TCPSource(declared.name, self._frames, bytes, declared.place, "", 0)

    @_source.register(TCPSourceConfig)
    def _tcp_source(
        self, config: TCPSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        unframed = None
        if config.framing == "frames":
            framing, decode = self._framed(config, config.max_size, where)
        else:
            max_size = self._max_frame if config.max_size is None else config.max_size
            framing = Framing(4, ">I", max_size)
            decode = self._decode(config.decoder, config.place, where)
            unframed = self._unframed(config, max_size, where)
        place, host, port = place_of(config.decoder), config.host, config.port
        return TCPSource(declared.name, framing, decode, place, host, port, unframed)

    def _unframed(
        self, config: TCPSourceConfig[Any], max_size: int, where: str
    ) -> Delimited | FixedLength | None:
        """How the messages of *config* are told apart without headers."""
        framing = config.framing
        try:
            if framing == "lines":
                return Delimited(b"\n", max_size, ends_with_stream=True)
            if isinstance(framing, bytes):
                return Delimited(framing, max_size)
            if type(framing) is int:
                return FixedLength(framing, max_size)
            problem = (
                "expected 'frames', 'lines', the bytes that end each message, or the number of "
                "bytes that each message has"
            )
        except ValueError as error:
            problem = str(error)
        self._problems.add(config.place, f"{where}: framing is {framing!r}; {problem}")
        return None

    @_source.register(HTTPSourceConfig)
    def _http_source(
        self, config: HTTPSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        if not (isinstance(config.path, str) and config.path.startswith("/")):
            problem = f"{where}: path is {config.path!r}; expected a text that begins with /"
            self._problems.add(config.place, problem)
        framing = Framing(4, ">I", self._max_frame if config.max_size is None else config.max_size)
        decode, place = (
            self._decode(config.decoder, config.place, where),
            place_of(config.decoder),
        )
        host, port = config.host, config.port
        return HTTPSource(declared.name, framing, decode, place, host, port, config.path)

    @_source.register(GenSourceConfig)
    def _generator_source(
        self, config: GenSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        self._check_generator(config, where)
        reader, place = GeneratorSource(config.gen, self._values), place_of(config.gen)
        decode = self._values.deserialize
        return CustomSource(declared.name, self._frames, decode, place, reader, gives_messages=True)

    @_source.register(FileSourceConfig)
    def _file_source(
        self, config: FileSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        framing: Framing | None
        if config.framing not in {"frames", "lines"}:
            problem = f"{where}: framing is {config.framing!r}; expected 'frames' or 'lines'"
            self._problems.add(config.place, problem)
        if config.framing == "frames":
            framing, decode = self._framed(config, None, where)
        else:
            framing, decode = None, self._decode(config.decoder, config.place, where)
        reader = FileSource(config.path, framing, self._max_frame, follow=config.follow)
        place = place_of(config.decoder)
        return CustomSource(declared.name, self._frames, decode, place, reader)

    @_source.register(CSVSourceConfig)
    def _csv_source(
        self, config: CSVSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        for problem in parquet.problems_of_csv(config):
            self._problems.add(config.place, f"{where}: {problem}")
        columns, follow = config.columns, config.follow
        reader = CSVRows(config.path, config.delimiter, columns, self._max_frame, follow=follow)
        return self._row_source(config, declared, where, reader)

    @_source.register(ParquetSourceConfig)
    def _parquet_source(
        self, config: ParquetSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        for problem in parquet.problems_of_columns(config.columns):
            self._problems.add(config.place, f"{where}: {problem}")
        reader = ParquetRows(config.path, config.columns, follow=config.follow)
        return self._row_source(config, declared, where, reader)

    def _row_source(
        self,
        config: CSVSourceConfig[Any] | ParquetSourceConfig[Any],
        declared: DeclaredPipeline,
        where: str,
        reader: RowFiles,
    ) -> Source:
        decode: Callable[[Any], Any] = dict
        place = declared.place
        if config.decoder is not None:
            decode = self._decode(config.decoder, config.place, where)
            place = place_of(config.decoder)
        decode = decoding_rows(decode)
        return CustomSource(declared.name, self._frames, decode, place, reader)

    @_source.register(SourceConfig)
    def _custom_source(
        self, config: SourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        reader, decode = config.source, self._decode(config.decoder, config.place, where)
        if not isinstance(reader, MessageSource):
            problem = (
                f"{where}: {describe(reader)} is not a source; "
                "pass an instance of a MessageSource subclass"
            )
            self._problems.add(config.place, problem)
        place = place_of(config.decoder)
        return CustomSource(declared.name, self._frames, decode, place, reader)

    @_source.register(KafkaSourceConfig)
    def _kafka_source(
        self, config: KafkaSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        decode = self._decode(config.decoder, config.place, where)
        found = list(problems_of(config))
        for problem in found:
            self._problems.add(config.place, f"{where}: {problem}")
        return KafkaSource(
            declared.name,
            self._frames,
            decoding_records(decode) if config.envelope else decode,
            place_of(config.decoder),
            topic_of(config),
            "earliest" if found else start_of(config),
            config.envelope,
            config.on_lost == "skip",
            config.group or "",
        )

    def _framed(
        self, config: TCPSourceConfig[Any] | FileSourceConfig[Any], max_size: int | None, where: str
    ) -> tuple[Framing, Callable[[bytes], Any]]:
        """How the decoder of *config* cuts frames, and what it makes of a payload."""
        max_frame = self._max_frame if max_size is None else max_size
        decoder, place = config.decoder, config.place
        try:
            made = decoder_of(decoder)
            if isinstance(made, Decoder):
                framing = Framing(made.header_length, made.length_fmt, max_frame)
                self._problems.check_arity(
                    made.function, 1, f"{where}: decoder {name_of(made)}", "payload"
                )
                return framing, made.function
            problem = f"{describe(made)} is not a decoder; decorate it with @decoder"
        except ValueError as error:
            problem, place = f"decoder {name_of(decoder)}: {error}", place_of(decoder)
            if missing_instance(decoder, "decode") is not None:
                place = config.place
        self._problems.add(place, f"{where}: {problem}")
        return Framing(4, ">I", max_frame), bytes

    def _decode(self, decoder: Any, place: Place, where: str) -> Callable[[bytes], Any]:
        """What a decoder that need not describe frames makes of a payload."""
        if (problem := missing_instance(decoder, "decode")) is not None:
            self._problems.add(place, f"{where}: decoder {name_of(decoder)}: {problem}")
            return bytes
        function = getattr(decoder, "decode", decoder)
        if isinstance(decoder, (Decoder, str, bytes)):
            function = getattr(decoder, "function", None)
        if not callable(function):
            self._problems.add(
                place, f"{where}: {describe(decoder)} is not a decoder; expected a function"
            )
            return bytes
        self._problems.check_arity(function, 1, f"{where}: decoder {name_of(decoder)}", "payload")
        made: Callable[[bytes], Any] = function
        return made

    def _check_generator(self, config: GenSourceConfig[Any], where: str) -> None:
        gen, methods = config.gen, (("initial_value", 0), ("apply", 1))
        if inspect.isclass(gen) or not all(callable(getattr(gen, m, None)) for m, _ in methods):
            self._problems.add(
                config.place,
                f"{where}: {describe(gen)} is not a generator; "
                "expected an object with initial_value() and apply(previous)",
            )
            return
        for method, count in methods:
            label, takes = f"{where}: generator's {method}", "previous" if count else ""
            self._problems.check_arity(getattr(gen, method), count, label, takes)

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
        self._problems.add(declared.place, problem + _described_with(config, "sink"))
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
        encode, place = encoder_of(config.encoder), place_of(config.encoder)
        if (due := missing_instance(config.encoder, "encode")) is not None:
            self._problems.add(config.place, f"{where}: encoder {name_of(config.encoder)}: {due}")
        elif isinstance(encode, Encoder):
            self._problems.check_arity(
                encode.function, 1, f"{where}: encoder {name_of(encode)}", "output"
            )
            encode = encode.function
        else:
            self._problems.add(
                config.place,
                f"{where}: {describe(encode)} is not an encoder; decorate it with @encoder",
            )
        return encode, place

    def _file_writer(self, config: FileSinkConfig[Any], where: str) -> FileSink:
        if config.framing not in {"none", "lines"}:
            problem = f"{where}: framing is {config.framing!r}; expected 'none' or 'lines'"
            self._problems.add(config.place, problem)
        other = self._written.setdefault(config.path, config)
        if other is not config:
            problem = f"{where}: {config.path} is written by the sink at {other.place} already"
            self._problems.add(config.place, problem)
        return FileSink(config.path, lines=config.framing == "lines")


def _described_with(config: Any, end: str) -> str:
    """What to do if *config* is the name of a connector that does not exist."""
    if not isinstance(config, str):
        return ""
    return f"; to use a connector by its name, first call {end}_connector({config!r}, …)"
