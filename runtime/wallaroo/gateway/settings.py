"""Settings of a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.api.addresses import Address
from wallaroo.dataflow.call_timeout import CALL_LIMIT_S
from wallaroo.errors import UsageError
from wallaroo.gateway.dead_letters.store import DeadLetterLimits
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.limits import SourceLimits
from wallaroo.model.application import Application
from wallaroo.observability.tracing import ONE_IN
from wallaroo.system.tls import TLSFiles


@dataclass(frozen=True)
class TrafficSettings:
    """How messages enter a gateway and outputs leave it."""

    sources: SourceLimits = field(default_factory=SourceLimits)
    """Limits on senders."""
    journal: JournalLimits = field(default_factory=JournalLimits)
    """Limits of the journal."""
    on_error: Sequence[str] = ()
    """What to do with messages that cannot be processed, as `[SOURCE=]POLICY`; the last policy for
    a source applies. Without a policy, they become dead letters."""
    source_tls: TLSFiles = field(default_factory=TLSFiles)
    """Files for TLS on the sources' ports; without a certificate, they accept plain TCP."""
    sink_tls: TLSFiles = field(default_factory=TLSFiles)
    """Files for TLS to receivers; without authorities, outputs are sent over plain TCP."""
    skip_damaged: bool = False
    """Whether to set aside messages of the journal and outputs of the outbox that are not as they
    were written, and to resume without them."""
    on_lost: str | None = None
    """`skip` to let all sources and sinks continue with what the other side has not lost; None to
    leave it to each of them."""
    trace_one_in: int = ONE_IN
    """Trace one in this many messages, if tracing is enabled."""


@dataclass(frozen=True)
class GatewaySettings:
    """How a gateway is set up."""

    directory: Path
    """Directory of the journal and the outbox."""
    location: str
    """Location of the internal API: `unix:PATH`, `http://HOST:PORT`, or with TLS
    `https://HOST:PORT`."""
    token_file: Path | None = None
    """File with the token that callers of the internal API must send; None to require none, for a
    Unix socket that no other user can reach."""
    tls: TLSFiles = field(default_factory=TLSFiles)
    """Certificate and key of the internal API; without them, it uses no TLS."""
    chunks_port: int | None = None
    """Port for the engine's processes, on the host of *location*; None for one that
    the system chooses, if there is a token. Beside a Unix socket there is another one for them."""
    health: Address | None = None
    """Address of the health endpoints; None to disable them."""
    traffic: TrafficSettings = field(default_factory=TrafficSettings)
    """How messages enter and outputs leave."""
    ports: Sequence[int] = ()
    """Ports to bind, one for each source, then one for each sink; if empty, the application's own.
    """
    takes_over: bool = False
    """Whether to wait, for as long as it takes, until another gateway leaves the directory."""
    letters: DeadLetterLimits = field(default_factory=DeadLetterLimits)
    """Limits of the dead letters."""
    histories: bool = False
    """Whether to run `wallaroo explain` for dashboards elsewhere, beside this process."""
    call_limit_s: float = CALL_LIMIT_S
    """Seconds that functions of the application may take to find the time of a message; 0 for no
    limit."""
    outbox_bytes: int = 1024**3
    """Bytes of undelivered outputs above which the engine waits; then the journal fills, and
    senders wait."""


def check_sources(application: Application) -> None:
    """Refuse sources that read the standard input of a run: a gateway by itself has none.

    Raises:
        UsageError: There is one; the message names it.
    """
    for source in application.sources:
        if source.is_standard:
            msg = (
                f"source {source.name!r} reads standard input, which is possible with "
                "`wallaroo run` alone: set its address (with --in, if the application uses it)"
            )
            raise UsageError(msg)


def check_sinks(application: Application) -> None:
    """Refuse sinks that cannot have a receiver.

    Raises:
        UsageError: There is one; the message names it.
    """
    for sink in application.sinks:
        if sink.problem is not None:
            raise UsageError(sink.problem)
