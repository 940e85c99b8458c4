"""The application in its one normal form, which every engine reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wallaroo.api.connectors import MessageSource, OutputSink
from wallaroo.api.place import Place
from wallaroo.model.framing import Framing


@dataclass(frozen=True)
class Source(ABC):
    """A named stream of messages; what kind it is matters to the edge alone."""

    name: str
    framing: Framing
    """How its messages lie in the journal: for TCP, as they came."""
    decode: Callable[[bytes], Any]
    """From payload to message; None drops the message."""
    place: Place

    @property
    @abstractmethod
    def where(self) -> str:
        """Where messages come from, for people."""


@dataclass(frozen=True)
class TCPSource(Source):
    """A source that listens."""

    host: str
    port: int

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class CustomSource(Source):
    """A source that Python code reads."""

    reader: MessageSource[Any] = field(compare=False)
    pickled: bool = False
    """Whether payloads are pickled messages, as those of a generator."""

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.reader)


@dataclass(frozen=True)
class Sink(ABC):
    """Where encoded outputs go; what kind it is matters to the edge alone."""

    name: str
    encode: Callable[[Any], bytes | str]
    """From output to bytes; text is sent as UTF-8."""
    place: Place

    @property
    @abstractmethod
    def where(self) -> str:
        """Where outputs go, for people."""


@dataclass(frozen=True)
class TCPSink(Sink):
    """A sink that connects to a receiver."""

    host: str
    port: int

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class CustomSink(Sink):
    """A sink that Python code writes."""

    writer: OutputSink = field(compare=False)

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.writer)


@dataclass(frozen=True)
class StatePartition:
    """A named set of state entities, one for each key."""

    name: str
    new_entity: Callable[[], Any]
    keys: frozenset[Any] | None
    """Keys that exist; None where every key makes its entity on its first message."""
    place: Place

    def holds(self, key: Any) -> bool:
        """Whether *key* has, or may get, an entity here."""
        return self.keys is None or key in self.keys


@dataclass(frozen=True)
class Compute:
    """A stateless step."""

    name: str
    function: Callable[[Any], Any]
    multi: bool
    """True where the function returns an iterable of messages, or None."""
    place: Place


@dataclass(frozen=True)
class StateCompute:
    """A step over the state entity of each message's key."""

    name: str
    function: Callable[[Any, Any], Any]
    multi: bool
    """True where the output is an iterable of messages, or None."""
    tells_save: bool
    """True where the function returns `(output, save)`, False where it returns the output alone."""
    partition: str
    """Name of the state partition."""
    key: Callable[[Any], Any]
    """From message to key."""
    place: Place


Step = Compute | StateCompute


@dataclass(frozen=True)
class Pipeline:
    """A way from one source through steps to any number of sinks."""

    name: str
    source: Source
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    place: Place


@dataclass(frozen=True)
class Application:
    """Pipelines and the state partitions that they share."""

    name: str
    pipelines: tuple[Pipeline, ...]
    partitions: Mapping[str, StatePartition]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every source, in the order of the pipelines."""
        return tuple(dict.fromkeys(pipeline.source for pipeline in self.pipelines))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Every sink, in the order of the pipelines."""
        return tuple(dict.fromkeys(s for pipeline in self.pipelines for s in pipeline.sinks))
