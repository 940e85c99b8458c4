"""How a gateway is set up."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.api.addresses import Address
from wallaroo.errors import UsageError
from wallaroo.gateway.connectors.tcp.limits import SourceLimits
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.dead_letters.store import DeadLetterLimits
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.model.application import Application
from wallaroo.observability.tracing import ONE_IN


@dataclass(frozen=True)
class GatewaySettings:
    """How a gateway is set up."""

    directory: Path
    """Directory of journal and outbox."""
    location: str
    """Where the internal API is: `grpc+unix:///PATH`, `grpc://HOST:PORT`, or with a certificate
    `grpc+tls://HOST:PORT`."""
    certificate: tuple[bytes, bytes] | None = None
    """Certificate and key, PEM, that the internal API shows; None for no TLS there."""
    token: str | None = None
    """Token that callers must show; None where nobody else gets to the door: a Unix socket."""
    health: Address | None = None
    """Where probes are answered; None for nowhere."""
    journal: JournalLimits = field(default_factory=JournalLimits)
    """Bounds of the journal."""
    sources: SourceLimits = field(default_factory=SourceLimits)
    """What senders may cost."""
    source_tls: ssl.SSLContext | None = None
    """TLS on the sources' ports; None for plain TCP."""
    sink_tls: ssl.SSLContext | None = None
    """TLS to the sinks' receivers; None for plain TCP."""
    ports: Sequence[int] = ()
    """Ports to bind, by source; where there are none, those of the application."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """What becomes of messages that are set aside, by source; where there is none, they are kept
    as dead letters."""
    letters: DeadLetterLimits = field(default_factory=DeadLetterLimits)
    """Bounds of the dead letters."""
    trace_one_in: int = ONE_IN
    """Of so many messages one is followed, where tracing is on."""
    outbox_bytes: int = 1024**3
    """Bytes of undelivered outputs over which the engine waits, and so, in the end, the senders."""


def check_sinks(application: Application) -> None:
    """Refuse sinks that nobody can be listening for.

    Raises:
        UsageError: There is one; the message names it.
    """
    for sink in application.sinks:
        if sink.problem is not None:
            raise UsageError(sink.problem)
