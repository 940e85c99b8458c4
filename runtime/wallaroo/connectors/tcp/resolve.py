"""TCP sources and sinks in the normal form of an application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wallaroo.api.addresses import STANDARD
from wallaroo.connectors.python.resolve import CustomSink
from wallaroo.connectors.stdout.resolve import printing
from wallaroo.connectors.tcp.config import TCPSinkConfig, TCPSourceConfig
from wallaroo.model.endpoints import Listening, OnAddress, Sink, Source
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Framing
from wallaroo.wire.unframed import Delimited, FixedLength


@dataclass(frozen=True)
class TCPSource(Listening, Source):
    """A source that listens."""

    connector = __package__
    framing: Framing
    unframed: Delimited | FixedLength | None = None
    """How messages come on plain connections, if not in the frames of the journal."""

    @property
    def label(self) -> str:  # noqa: D102
        return "TCP source"


@dataclass(frozen=True)
class StandardInputSource(TCPSource):
    """A source that `wallaroo run` connects to, and sends the lines of its standard input."""

    refuses = True

    @property
    def is_standard(self) -> bool:  # noqa: D102
        return True

    @property
    def where(self) -> str:  # noqa: D102
        return "standard input"

    @property
    def label(self) -> str:  # noqa: D102
        return self.where


@dataclass(frozen=True)
class TCPSink(OnAddress, Sink):
    """A sink that connects to a receiver."""

    connector = __package__
    sequenced: bool = False
    """Whether each output is preceded by its number."""

    @property
    def label(self) -> str:  # noqa: D102
        return "TCP sink"

    @property
    def joins_outputs(self) -> bool:  # noqa: D102
        return True

    @property
    def problem(self) -> str | None:  # noqa: D102
        if self.port:
            return None
        return (
            f"sink {self.name!r} sends to {self.where}, but no receiver can listen on port 0: "
            "set the port of its receiver (with --out, if the application uses it)"
        )


def source(config: TCPSourceConfig[Any], context: SourceContext) -> TCPSource:
    """The source that *config* describes."""
    unframed, max_size = None, context.max_size()
    if config.framing == "frames":
        framing, decode = context.framed(max_size)
    else:
        framing, decode = Framing(4, ">I", max_size), context.decode()
        unframed = _unframed(config.framing, max_size, context)
    place, host, port = context.place, config.host, config.port
    kind = TCPSource
    if host == STANDARD:
        kind, host, port = StandardInputSource, "127.0.0.1", 0
    return kind(context.name, framing, decode, place, host, port, unframed)


def sink(config: TCPSinkConfig[Any], context: SinkContext) -> TCPSink | CustomSink:
    """The sink that *config* describes."""
    if config.host == STANDARD:
        return printing(context)
    encode, place = context.encode(), context.place
    return TCPSink(context.name, encode, place, config.host, config.port, config.sequenced)


def _unframed(
    framing: object, max_size: int, context: SourceContext
) -> Delimited | FixedLength | None:
    """How messages are told apart without headers."""
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
    context.report(f"framing is {framing!r}; {problem}")
    return None
