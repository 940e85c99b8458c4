"""From the configuration of a source to its normal form: a method for each class of them."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.configs import (
    FileSourceConfig,
    GenSourceConfig,
    HTTPSourceConfig,
    TCPSourceConfig,
)
from wallaroo.api.connectors import MessageSource, SourceConfig
from wallaroo.api.functions import Decoder
from wallaroo.api.kafka import KafkaSourceConfig
from wallaroo.api.places import Place, place_of
from wallaroo.api.row_files import CSVSourceConfig, ParquetSourceConfig
from wallaroo.model import parquet
from wallaroo.model.application import Serialization
from wallaroo.model.class_api import decoder_of
from wallaroo.model.endpoints import CustomSource, HTTPSource, Source, TCPSource
from wallaroo.model.file_connectors import FileSource
from wallaroo.model.generators import GeneratorSource
from wallaroo.model.kafka import (
    KafkaSource,
    decoding_records,
    problems_of,
    start_of,
    topic_of,
)
from wallaroo.model.problems import (
    Problems,
    describe,
    described_with,
    makes_codecs,
    missing_instance,
    name_of,
    not_a,
    not_decorated,
    url_path,
    whole_number,
)
from wallaroo.model.row_files import CSVRows, ParquetRows, RowFiles, decoding_rows
from wallaroo.wire.framing import Framing
from wallaroo.wire.unframed import Delimited, FixedLength

_PICKLE = Serialization(functools.partial(pickle.dumps, protocol=5), pickle.loads)


class SourceResolver:
    """Resolves the sources of an application.

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

    def source(self, declared: DeclaredPipeline) -> Source:
        """The source of a pipeline; valid only if no problem was found."""
        source = self._source(declared.source, declared, f"pipeline {declared.name!r}")
        decoder = getattr(declared.source, "decoder", None)
        return replace(source, repeatable=getattr(decoder, "repeatable", False) is True)

    @functools.singledispatchmethod
    def _source(self, config: Any, declared: DeclaredPipeline, where: str) -> Source:
        """The source that *config* describes: one method for each class of configurations."""
        problem = f"{where}: {describe(config)} is not a source configuration"
        self._problems.add(declared.place, problem + described_with(config, "source"))
        return TCPSource(declared.name, self._frames, bytes, declared.place, "", 0)

    @_source.register(TCPSourceConfig)
    def _tcp_source(
        self, config: TCPSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        unframed, max_size = None, self._max_size(config, where)
        if config.framing == "frames":
            framing, decode = self._framed(config, max_size, where)
        else:
            framing = Framing(4, ">I", max_size)
            decode = self._decode(config.decoder, config.place, where)
            unframed = self._unframed(config, max_size, where)
        place, host, port = place_of(config.decoder, config.place), config.host, config.port
        return TCPSource(declared.name, framing, decode, place, host, port, unframed)

    def _max_size(self, config: TCPSourceConfig[Any] | HTTPSourceConfig[Any], where: str) -> int:
        """The largest message that *config* admits, in bytes."""
        if config.max_size is None:
            return self._max_frame
        problems = [*whole_number("max_size", config.max_size, 1)]
        for problem in problems:
            self._problems.add(config.place, f"{where}: {problem}")
        return self._max_frame if problems else config.max_size

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
        for problem in url_path(config.path):
            self._problems.add(config.place, f"{where}: {problem}")
        framing = Framing(4, ">I", self._max_size(config, where))
        decode = self._decode(config.decoder, config.place, where)
        place, host, port = place_of(config.decoder, config.place), config.host, config.port
        return HTTPSource(declared.name, framing, decode, place, host, port, config.path)

    @_source.register(GenSourceConfig)
    def _generator_source(
        self, config: GenSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        self._check_generator(config, where)
        reader = GeneratorSource(config.gen, self._values)
        place = place_of(config.gen, config.place)
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
        place = place_of(config.decoder, config.place)
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
            place = place_of(config.decoder, config.place)
            self._check_takes(
                config, where, "a row, which is a dict: write lambda row: …, or no decoder"
            )
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
        place = place_of(config.decoder, config.place)
        return CustomSource(declared.name, self._frames, decode, place, reader)

    @_source.register(KafkaSourceConfig)
    def _kafka_source(
        self, config: KafkaSourceConfig[Any], declared: DeclaredPipeline, where: str
    ) -> Source:
        decode = self._decode(config.decoder, config.place, where)
        if config.envelope:
            takes = "a KafkaRecord: write lambda record: decode(record.value), or envelope=False"
            self._check_takes(config, where, takes)
        found = list(problems_of(config))
        for problem in found:
            self._problems.add(config.place, f"{where}: {problem}")
        return KafkaSource(
            declared.name,
            self._frames,
            decoding_records(decode) if config.envelope else decode,
            place_of(config.decoder, config.place),
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
            problem = not_decorated("decoder", made, "decode")
        except ValueError as error:
            problem, place = f"decoder {name_of(decoder)}: {error}", place_of(decoder, config.place)
            if missing_instance(decoder, "decode") is not None:
                place = config.place
        self._problems.add(place, f"{where}: {problem}")
        return Framing(4, ">I", max_frame), bytes

    def _decode(self, decoder: Any, place: Place, where: str) -> Callable[[bytes], Any]:
        """What a decoder that need not describe frames makes of a payload."""
        if (problem := missing_instance(decoder, "decode")) is not None:
            self._problems.add(place, f"{where}: decoder {name_of(decoder)}: {problem}")
            return bytes
        of_python = decoder is bytes or decoder is bytearray  # whose `decode` is that of a value
        function = decoder if of_python else getattr(decoder, "decode", decoder)
        if isinstance(decoder, (Decoder, str, bytes)):
            function = getattr(decoder, "function", None)
        if makes_codecs(decoder) or not callable(function):
            self._problems.add(
                place, f"{where}: {not_a('decoder', decoder, 'expected a function')}"
            )
            return bytes
        self._problems.check_arity(function, 1, f"{where}: decoder {name_of(decoder)}", "payload")
        made: Callable[[bytes], Any] = function
        return made

    def _check_takes(
        self,
        config: CSVSourceConfig[Any] | ParquetSourceConfig[Any] | KafkaSourceConfig[Any],
        where: str,
        takes: str,
    ) -> None:
        """Report a decoder of `wallaroo.codecs`, which takes bytes, where it gets what *takes*."""
        decoder = config.decoder
        if isinstance(decoder, Decoder) and decoder.place is not None:
            self._problems.add(
                config.place,
                f"{where}: {name_of(decoder)} decodes messages of bytes, but the decoder of a "
                f"{type(config).__name__} gets {takes}",
            )

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
