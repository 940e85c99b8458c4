"""Sources and sinks that are implemented in Python, in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wallaroo.api.connectors import MessageSource, OutputSink
from wallaroo.connectors.python.config import SinkConfig, SourceConfig
from wallaroo.model.endpoints import Sink, Source, TimesOf
from wallaroo.resolution.problems import describe
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Framing


@dataclass(frozen=True)
class CustomSource(Source):
    """A source that is read by Python code."""

    connector = __package__
    refuses = True
    tells_end = True
    framing: Framing
    reader: MessageSource[Any] = field(compare=False)
    gives_messages: bool = False
    """Whether its payloads are serialized messages, as with a generator."""
    runs_code: bool = True
    """Whether the reader is the application's."""

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.reader)

    @property
    def ends(self) -> bool:  # noqa: D102
        return True

    def read(self, position: Any) -> Iterator[tuple[bytes, Any] | None]:  # noqa: D102
        return self.reader.read(position)

    def read_in_order(  # noqa: D102
        self,
        position: Any,
        times_of: TimesOf | None,  # noqa: ARG002
    ) -> Iterator[tuple[bytes, Any] | None]:
        return self.read(position)


@dataclass(frozen=True)
class CustomSink(Sink):
    """A sink that is written by Python code."""

    connector = __package__
    writer: OutputSink = field(compare=False)
    joins_outputs: bool = False
    runs_code: bool = True
    """Whether the writer is the application's."""

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.writer)


def source(config: SourceConfig[Any], context: SourceContext) -> CustomSource:
    """The source that *config* describes."""
    reader, decode = config.source, context.decode()
    if not isinstance(reader, MessageSource):
        context.report(
            f"{describe(reader)} is not a source; pass an instance of a MessageSource subclass"
        )
    return CustomSource(context.name, context.frames, decode, context.place, reader)


def sink(config: SinkConfig[Any], context: SinkContext) -> CustomSink:
    """The sink that *config* describes."""
    encode = context.encode()
    if not isinstance(config.sink, OutputSink):
        context.report(
            f"{describe(config.sink)} is not a sink; pass an instance of an OutputSink subclass"
        )
    return CustomSink(context.name, encode, context.place, config.sink)
