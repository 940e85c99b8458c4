"""The application in its one normal form, which every engine reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wallaroo.api.connectors import MessageSource, OutputSink
from wallaroo.api.places import Place
from wallaroo.model.raised import pass_interrupt, told
from wallaroo.model.windows import Windows
from wallaroo.wire.framing import Framing, MessageFormat


@dataclass(frozen=True)
class Source(ABC):
    """A named stream of messages. Only a connector of the gateway knows kinds of sources."""

    name: str
    framing: MessageFormat
    """How its messages lie in the journal: for TCP, as they came."""
    decode: Callable[[bytes], Any]
    """From payload to message; None drops the message."""
    place: Place

    @property
    @abstractmethod
    def where(self) -> str:
        """Where messages come from, for people."""

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
class CustomSource(Source):
    """A source that Python code reads."""

    framing: Framing
    reader: MessageSource[Any] = field(compare=False)
    gives_messages: bool = False

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
    """Where encoded outputs go. Only a connector of the gateway knows kinds of sinks."""

    name: str
    encode: Callable[[Any], bytes | str]
    """From output to bytes; text is sent as UTF-8."""
    place: Place

    @property
    @abstractmethod
    def where(self) -> str:
        """Where outputs go, for people."""

    @property
    def label(self) -> str:
        """What it is called in a diagram."""
        return self.where

    @property
    def problem(self) -> str | None:
        """Why it could never deliver, with what to do; None if it can."""
        return None


@dataclass(frozen=True)
class TCPSink(Sink):
    """A sink that connects to a receiver."""

    host: str
    port: int
    sequenced: bool = False
    """Whether outputs go out behind their numbers."""

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
    """A sink that Python code writes."""

    writer: OutputSink = field(compare=False)

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.writer)


_SOME_KEYS = 5
"""Listed keys that are named."""


def shown(key: Any) -> str:
    """The start of *key*, printable."""
    try:
        return repr(key)[:100]
    except BaseException as unprintable:
        pass_interrupt(unprintable)
        return f"<{type(key).__name__} whose repr raises {told(unprintable)}>"[:100]


def _in_other_type(key: Any) -> Any:
    """*key* as upstream made one of it (a character of its code), or as Python 2 did; or itself."""
    try:
        if isinstance(key, int):
            return chr(key)
        if isinstance(key, bytes):
            return key.decode()
        return key.encode() if isinstance(key, str) else key
    except (ValueError, OverflowError):
        return key


@dataclass(frozen=True)
class StatePartition:
    """A named set of state entities, one for each key."""

    name: str
    new_entity: Callable[[], Any]
    keys: frozenset[Any] | None
    """Keys that exist; None where every key makes its entity on its first message."""
    place: Place
    windows: Windows | None = None
    """What its entities are, where they are windows; None for entities of the user's class."""

    def holds(self, key: Any) -> bool:
        """Whether *key* has, or may get, an entity here."""
        return self.keys is None or key in self.keys

    def listed(self) -> str:
        """Some of the keys that are listed, and how many there are, for people."""
        keys = self.keys or ()
        some = sorted(map(repr, keys))[:_SOME_KEYS]
        return f"{', '.join(some)}{', …' if len(keys) > len(some) else ''} ({len(keys):,} keys)"

    def refusal(self, key: Any) -> str:
        """Why *key*, which is not listed, has no entity here.

        Example:
            >>> here = StatePartition("totals", dict, frozenset("ab"), Place("app.py", 1))
            >>> print(here.refusal(97).partition(": ")[2])
            it is of type int, and the listed keys are of type str; return 'a' for it
        """
        text = f"its key {shown(key)} is not among those of state {self.name!r}"
        example = next(iter(self.keys or ()), key)
        if type(key) is type(example):
            return text
        kinds = type(key).__name__, type(example).__name__
        text += ": it is of type {}, and the listed keys are of type {}".format(*kinds)
        other = _in_other_type(key)
        return f"{text}; return {other!r} for it" if self.holds(other) else text


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
    key: Callable[[Any], Any] | None
    """From message to key; None for the key that the message has already."""
    place: Place


@dataclass(frozen=True)
class WindowCompute:
    """A step that gathers the messages of each key in windows."""

    name: str
    windows: Windows
    partition: str
    """Name of the state partition, which holds what open windows have gathered."""
    key: Callable[[Any], Any] | None
    """From message to key; None for the key that the message has already."""
    place: Place


@dataclass(frozen=True)
class KeyBy:
    """A step that gives messages a key for the steps behind it."""

    name: str
    key: Callable[[Any], Any]
    place: Place


Stateful = StateCompute | WindowCompute
Stateless = Compute | KeyBy
Step = Stateless | Stateful


@dataclass(frozen=True)
class Branch:
    """Steps, and the ways that go on behind them; the sinks follow where none do."""

    steps: tuple[Step, ...]
    forks: tuple[Branch, ...] = ()

    def walk(self) -> Iterator[Step]:
        """Every step of it and of its forks."""
        yield from self.steps
        for fork in self.forks:
            yield from fork.walk()


@dataclass(frozen=True)
class Pipeline:
    """A way from one source through steps to any number of sinks."""

    name: str
    source: Source
    trunk: Branch
    sinks: tuple[Sink, ...]
    """Where what comes out of every end of the trunk goes."""
    place: Place


@dataclass(frozen=True)
class Serialization:
    """An application's own `serialize` and `deserialize`, for messages and state."""

    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]


@dataclass(frozen=True)
class Application:
    """Pipelines and the state partitions that they share."""

    name: str
    pipelines: tuple[Pipeline, ...]
    partitions: Mapping[str, StatePartition]
    serialization: Serialization | None = None
    """The application's own way to turn objects into bytes; None for pickle."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every source, in the order of the pipelines."""
        return tuple(dict.fromkeys(pipeline.source for pipeline in self.pipelines))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Every sink, in the order of the pipelines."""
        return tuple(dict.fromkeys(s for pipeline in self.pipelines for s in pipeline.sinks))
