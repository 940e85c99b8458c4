"""The normal form of sources and sinks, which each connector extends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from wallaroo.api.durations import EventTime
from wallaroo.api.places import Place
from wallaroo.wire.framing import MessageFormat

IDLE_NS = 60 * 10**9
"""For how long sources wait for another one, unless it says so itself."""

Kept = tuple[bytes | None, int | None]
"""What an output keeps of the record that it comes from: its key, and its timestamp in milliseconds
since the Unix epoch; None where it has none."""

TimesOf = Callable[[Sequence[bytes]], Sequence[int | None]]
"""From payloads to the times of their messages; None for one that has none."""


@dataclass(frozen=True)
class Endpoint(ABC):
    """A source or a sink; only its connector distinguishes kinds of them."""

    connector: ClassVar[str]
    """Package of the connector; its module `source` has a function `open_sources`, and its module
    `sink` a function `open_sink`."""
    name: str
    skips_lost: bool = field(default=False, kw_only=True)
    """Whether to continue with what is left if the other side has lost records that were not read,
    or outputs that were delivered."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Human-readable origin of the messages, or destination of the outputs."""

    @property
    def label(self) -> str:
        """What it is called in a diagram."""
        return self.where

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port that it listens on; port 0 lets the system choose. None if it does not."""
        return None

    def at_port(self, port: int) -> Self:  # noqa: ARG002
        """The same, listening on *port* if it listens."""
        return self

    def skipping_lost(self) -> Self:
        """The same, with `skips_lost`."""
        return replace(self, skips_lost=True)

    @property
    def is_standard(self) -> bool:
        """Whether it is standard input, or standard output."""
        return False

    @property
    def runs_code(self) -> bool:
        """Whether the gateway runs code of the application to read or write it."""
        return False

    def check(self) -> None:  # noqa: B027  (most need nothing of this machine)
        """Check what can be checked on this machine without reading or writing anything.

        Raises:
            RuntimeFailure: It could not be read or written.
        """


@dataclass(frozen=True)
class Source(Endpoint):
    """A named stream of messages."""

    refuses: ClassVar[bool] = False
    """Whether refusals stand for messages that it cannot take; see `wallaroo.wire.refusals`."""
    has_records: ClassVar[bool] = False
    """Whether its messages are records, of which outputs keep something; see `apart`."""
    knows_times: ClassVar[bool] = False
    """Whether its messages come with times."""
    tells_end: ClassVar[bool] = False
    """Whether its connector tells when it is read to the end that it had at the start."""
    framing: MessageFormat
    """Framing of its messages in the journal; for TCP, the framing on the connection."""
    decode: Callable[[bytes], Any]
    """From payload to message; None to drop the message."""
    place: Place
    repeatable: bool = field(default=False, kw_only=True)
    """Whether decoding a payload again is declared to yield an equal message."""
    time: EventTime | None = field(default=None, kw_only=True)
    """From a message to its time, to read sources in the order of time; None if that is not known,
    or known otherwise."""
    idle_ns: int = field(default=IDLE_NS, kw_only=True)
    """For how long others wait for a source that has more, and cannot be read."""

    @property
    def listens(self) -> bool:
        """Whether senders connect to it."""
        return self.address is not None

    @property
    def ends(self) -> bool:
        """Whether it can come to an end by itself."""
        return False

    def read(self, position: Any) -> Iterator[tuple[bytes, Any] | None] | None:  # noqa: ARG002
        """Its messages as `MessageSource.read` yields them; None if they exist only at run time."""
        return None

    def read_in_order(
        self,
        position: Any,
        times_of: TimesOf | None,  # noqa: ARG002
    ) -> Iterator[tuple[bytes, Any] | None] | None:
        """The same, in the order that *times_of* gives if they come from several files."""
        return self.read(position)

    def problem_beside(self, sink: Sink) -> str | None:  # noqa: ARG002
        """Why it cannot be in one application with *sink*, with what to do; None if it can."""
        return None

    def storing_records(self) -> Self:
        """The same, with all that belongs to a message in the journal."""
        return self

    def apart(self, payload: Any) -> tuple[Any, Kept | None]:
        """What `decode` takes for *payload*, and what outputs keep; None for a value alone."""
        return payload, None

    def given(self, payload: Any) -> Any:
        """*payload* as its decoder takes it, where a test or a file gives the payload alone."""
        return payload

    def shown(self, payload: Any) -> Any:
        """*payload* as its decoder gets it, for dead letters."""
        return payload

    @property
    def gives_messages(self) -> bool:
        """Whether its payloads are serialized messages, as those of a generator."""
        return False


@dataclass(frozen=True)
class Sink(Endpoint):
    """A destination of encoded outputs."""

    has_records: ClassVar[bool] = False
    """Whether its outputs are records, see `record`."""
    encode: Callable[..., bytes | str]
    """From output to bytes; text is sent as UTF-8. If it `keeps` something, it also takes that."""
    place: Place
    keeps: bool = field(default=False, kw_only=True)
    """Whether outputs keep something of the records that they come from."""

    @property
    def problem(self) -> str | None:
        """Why it could never deliver, with what to do; None if it can."""
        return None

    def value(self, output: bytes) -> bytes:
        """What a receiver gets of an encoded output, for `wallaroo.testing`."""
        return output

    def record(self, output: bytes) -> Any:
        """The record that an encoded output is, if the sink `has_records`."""
        raise NotImplementedError

    @property
    def joins_outputs(self) -> bool:
        """Whether a receiver gets the outputs with nothing between them."""
        return False


@dataclass(frozen=True)
class OnAddress(Endpoint):
    """What those that listen or connect have besides; named before `Source` or `Sink`."""

    host: str
    port: int

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Listening(OnAddress):
    """What those that listen have besides; named before `Source` or `Sink`."""

    @property
    def address(self) -> tuple[str, int]:  # noqa: D102
        return self.host, self.port

    def at_port(self, port: int) -> Self:  # noqa: D102
        return replace(self, port=port)
