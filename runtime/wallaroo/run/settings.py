"""What `wallaroo run` is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from wallaroo.api.addresses import Address
from wallaroo.engine.batch_sizing import BatchLimits
from wallaroo.gateway.connectors.tcp.limits import SourceLimits
from wallaroo.model.loader import ApplicationRef
from wallaroo.observability.tracing import ONE_IN
from wallaroo.system.tls import TLSFiles


@dataclass(frozen=True)
class RunSettings:
    """What `wallaroo run` was asked to do."""

    application: ApplicationRef
    """The application and its arguments."""
    workers: int = 1
    """Ranges that a batch is read in at most; worker processes, on local Spark."""
    partitions: int = 1
    """Partitions of the state, if the state directory is new."""
    state_dir: Path | None = None
    """State directory; None for `.wallaroo/NAME`."""
    master: str = "local[1]"
    """Spark master URL."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark."""
    batch: BatchLimits = field(default_factory=BatchLimits)
    """Bounds of a batch."""
    sources: SourceLimits = field(default_factory=SourceLimits)
    """What senders may cost."""
    on_error: tuple[str, ...] = ()
    """What becomes of messages that are set aside, as `[SOURCE=]POLICY`."""
    tls: Mapping[str, Path | None] = field(default_factory=dict)
    """Files for TLS, by the names of their options."""
    call_limit_s: float = 60.0
    """Seconds that a function of the application may take for one message; 0 for no limit."""
    trace_one_in: int = ONE_IN
    """Of so many messages one is followed, where tracing is on."""
    journal_bytes: int = 4 * 1024**3
    """Bytes of messages that wait on disk at most."""
    accept_lost_journal: bool = False
    """Whether to go on where journal or outbox is lost, or older than the checkpoint."""
    drain_timeout_s: float = 60.0
    """Seconds to go on after a stop signal."""
    until_done: bool = False
    """Whether to stop when every source has ended, every window has closed, and all is processed
    and delivered."""
    gateway: str | None = None
    """`HOST:PORT` at which workers on other machines reach the gateway; None for a Unix socket."""
    gateway_tls: TLSFiles = field(default_factory=TLSFiles)
    """Certificate and key that the gateway shows there, and the authorities that workers trust."""
    log_level: str = "info"
    """Least severe log events to show."""
    ui: Address | None = None
    """Where the dashboard is served; None for nowhere."""
    ui_token: str | None = None
    """What the dashboard asks for before dead letters are replayed or dropped; None for never."""
    live: Console | None = None
    """Terminal that shows a live view, where there is a dashboard; None for none."""
