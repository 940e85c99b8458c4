"""The normal form of sources and sinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from wallaroo.api.connectors import MessageSource, OutputSink
from wallaroo.api.places import Place
from wallaroo.wire.framing import Framing, MessageFormat
from wallaroo.wire.unframed import Delimited, FixedLength


@dataclass(frozen=True)
class Source(ABC):
    """A named stream of messages; only a connector distinguishes kinds of sources."""

    name: str
    framing: MessageFormat
    """Framing of its messages in the journal; for TCP, the framing on the connection."""
    decode: Callable[[bytes], Any]
    """From payload to message; None to drop the message."""
    place: Place
    repeatable: bool = field(default=False, kw_only=True)
    """Whether decoding a payload again is declared to yield an equal message."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Human-readable origin of the messages."""

    @property
    def label(self) -> str:
        """What it is called in a diagram."""
        return self.where

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port that it listens on; port 0 lets the system choose. None if it does not."""
        return None

    def at_port(self, port: int) -> Source:  # noqa: ARG002
        """The same source, listening on *port* if it listens."""
        return self

    @property
    def ends(self) -> bool:
        """Whether it can come to an end by itself."""
        return False

    def read(self, position: Any) -> Iterator[tuple[bytes, Any] | None] | None:  # noqa: ARG002
        """Its messages as `MessageSource.read` yields them; None if they exist only at run time."""
        return None

    def shown(self, payload: Any) -> Any:
        """*payload* as its decoder gets it, for dead letters."""
        return payload

    @property
    def gives_messages(self) -> bool:
        """Whether its payloads are serialized messages, as those of a generator."""
        return False


@dataclass(frozen=True)
class TCPSource(Source):
    """A source that listens."""

    framing: Framing
    host: str
    port: int
    unframed: Delimited | FixedLength | None = None
    """How messages come on plain connections, if not in the frames of the journal."""

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"

    @property
    def label(self) -> str:  # noqa: D102
        return "TCP source"

    @property
    def address(self) -> tuple[str, int]:  # noqa: D102
        return self.host, self.port

    def at_port(self, port: int) -> TCPSource:  # noqa: D102
        return replace(self, port=port)


@dataclass(frozen=True)
class HTTPSource(Source):
    """A source that takes messages by POST."""

    framing: Framing
    host: str
    port: int
    path: str
    """Where messages are posted to."""

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"

    @property
    def label(self) -> str:  # noqa: D102
        return "HTTP source"

    @property
    def address(self) -> tuple[str, int]:  # noqa: D102
        return self.host, self.port

    def at_port(self, port: int) -> HTTPSource:  # noqa: D102
        return replace(self, port=port)


@dataclass(frozen=True)
class CustomSource(Source):
    """A source that is read by Python code."""

    framing: Framing
    reader: MessageSource[Any] = field(compare=False)
    gives_messages: bool = False
    """Whether its payloads are serialized messages, as with a generator."""

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.reader)

    @property
    def ends(self) -> bool:  # noqa: D102
        return True

    def read(self, position: Any) -> Iterator[tuple[bytes, Any] | None]:  # noqa: D102
        return self.reader.read(position)


@dataclass(frozen=True)
class Sink(ABC):
    """A destination of encoded outputs; only a connector distinguishes kinds of sinks."""

    name: str
    encode: Callable[[Any], bytes | str]
    """From output to bytes; text is sent as UTF-8."""
    place: Place

    @property
    @abstractmethod
    def where(self) -> str:
        """Human-readable destination of the outputs."""

    @property
    def label(self) -> str:
        """What it is called in a diagram."""
        return self.where

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port that it listens on; port 0 lets the system choose. None if it does not."""
        return None

    def at_port(self, port: int) -> Sink:  # noqa: ARG002
        """The same sink, listening on *port* if it listens."""
        return self

    @property
    def problem(self) -> str | None:
        """Why it could never deliver, with what to do; None if it can."""
        return None

    def value(self, output: bytes) -> bytes:
        """What a receiver gets of an encoded output, for `wallaroo.testing`."""
        return output


@dataclass(frozen=True)
class TCPSink(Sink):
    """A sink that connects to a receiver."""

    host: str
    port: int
    sequenced: bool = False
    """Whether each output is preceded by its number."""

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"

    @property
    def label(self) -> str:  # noqa: D102
        return "TCP sink"

    @property
    def problem(self) -> str | None:  # noqa: D102
        if self.port:
            return None
        return (
            f"sink {self.name!r} sends to {self.where}, but no receiver can listen on port 0: "
            "set the port of its receiver (with --out, if the application uses it)"
        )


@dataclass(frozen=True)
class CustomSink(Sink):
    """A sink that is written by Python code."""

    writer: OutputSink = field(compare=False)

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.writer)
