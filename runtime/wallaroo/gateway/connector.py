"""The interface between the gateway and its connectors."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.limits import SourceLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.tables import Tables
from wallaroo.gateway.turns import Turn
from wallaroo.metrics.samples import Sample
from wallaroo.model.endpoints import TimesOf

Times = Mapping[int, TimesOf]


def _ignore(_error: Exception) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class ConnectorContext:
    """What the gateway gives its connectors."""

    journal: Journal
    """Takes the messages of sources."""
    outbox: Outbox
    """Has the outputs for sinks."""
    limits: SourceLimits = field(default_factory=SourceLimits)
    """Limits for senders, for sources that listen."""
    source_tls: ssl.SSLContext | None = None
    """TLS for sources that listen; None for plain connections."""
    sink_tls: ssl.SSLContext | None = None
    """TLS to receivers; None for plain connections."""
    turns: Mapping[int, Turn] = field(default_factory=dict)
    """Turns of the sources that are read in the order of time, by index."""
    tables: Tables = field(default_factory=Tables)
    """Tables that are read before other sources."""
    times: Times = field(default_factory=dict)
    """Find the times of messages elsewhere, by the index of their source; this process finds those
    of other sources."""
    application: str = ""
    """Name of the application."""
    on_failure: Callable[[Exception], None] = _ignore
    """Ends the gateway because the journal or the outbox failed; for any thread."""


@dataclass(frozen=True)
class SourceState:
    """What a connector reports about one of its sources."""

    where: str
    """`HOST:PORT` that is bound, or what is read."""
    ended: bool = False
    """Whether it has come to its end, and gives no more messages in this run."""
    failures: int = 0
    """Times that reading has failed since its last message."""
    problem: str | None = None
    """Why it failed last; None if it has not since its last message."""


class SourceConnector(ABC):
    """Brings the messages of all sources of one kind into the journal.

    It is made for the sources' indices in the application, and hands messages to the journal under
    these indices: with `Journal.submit`, or `submit_read` if they come with a position from which
    they can be read again. If `submit` reports that the journal is full, the connector takes no
    more messages until `on_room`. Coroutines run in the gateway's event loop.
    """

    @abstractmethod
    async def start(self) -> None:
        """Bind addresses or begin to read.

        Raises:
            RuntimeFailure: An address cannot be bound; the message names it.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Take no more messages; returns when the journal has been given all that were taken."""

    async def close(self) -> None:  # noqa: B027  (most have nothing left to close)
        """Close what `stop` left open, such as connections that wait for acknowledgements."""

    @abstractmethod
    def status(self, index: int) -> SourceState:
        """The state of the source with this index; for any thread."""

    @property
    def connections(self) -> int:
        """Connections of senders that are open now."""
        return 0

    def on_room(self) -> None:  # noqa: B027  (some wait for room themselves)
        """Continue: the journal has room again; called from any thread."""

    def on_accepted(  # noqa: B027  (most acknowledge nothing)
        self, positions: Mapping[StreamName, int]
    ) -> None:
        """Acknowledge what the journal has on disk now, by stream; from any thread, and quick."""


class SinkConnector(Protocol):
    """Delivers the outputs of one sink from the outbox, in a thread that it starts itself.

    It takes them in order with `Outbox.next` and notes them with `Outbox.delivered` when the
    receiver has them.
    """

    problem: str | None
    """Why outputs wait on disk now; None while they do not."""

    def stop(self) -> None:
        """Stop; what is not delivered stays in the outbox."""


@runtime_checkable
class Reporting(Protocol):
    """A connector with metrics of its own."""

    def samples(self) -> Iterable[Sample]:
        """Its metrics; for any thread."""


@runtime_checkable
class Listening(Protocol):
    """A sink that listens."""

    where: str
    """`HOST:PORT` that is bound."""
