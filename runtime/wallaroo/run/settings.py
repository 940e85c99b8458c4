"""The settings of the processes: what the command line, or a chart through it, fills in.

`LocalSettings` belong to `wallaroo run`, `GatewayProcessSettings` and `ClusterSettings` to the
gateway and the driver on a cluster. A default is declared here, or in the parts that these are
composed of, and nowhere else: the options of `wallaroo.cli` take it from the field that they fill.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.api.addresses import Address
from wallaroo.engine.settings import EngineSettings
from wallaroo.gateway.internal_api.location import location_of
from wallaroo.gateway.settings import GatewaySettings, TrafficSettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.system.tls import TLSFiles

KUBERNETES = "k8s://https://kubernetes.default.svc"
"""Spark master URL of the cluster that a pod runs on."""


@dataclass(frozen=True)
class DashboardSettings:
    """How the dashboard is served."""

    address: Address | None = None
    """Address to serve it at; None to disable it."""
    token_file: Path | None = None
    """File with the token that users must enter to pause the run or change dead letters, and to
    view anything unless the address is a loopback address. With None, everyone may view, and nobody
    may change anything."""
    names: tuple[str, ...] = ()
    """Names besides its address that browsers may call it by."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What runs on one machine and on a cluster share."""

    engine: EngineSettings
    """The application, and how the engine runs it."""
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    """How the dashboard is served."""
    accept_lost_journal: bool = False
    """Whether to start even if the journal or the outbox is lost or older than the checkpoint."""
    log_level: str = "info"
    """Lowest level of log events to show."""


@dataclass(frozen=True, kw_only=True)
class LocalSettings(RunSettings):
    """Settings of `wallaroo run`, which starts its gateway itself."""

    traffic: TrafficSettings = field(default_factory=TrafficSettings)
    """How messages enter the gateway and outputs leave it."""
    partitions: int | None = None
    """Number of partitions, if the state directory is new; None for the number of workers."""
    state_dir: Path | None = None
    """State directory; None for that of `default_state_dir`."""
    gateway: Address | None = None
    """Address at which workers on other machines reach the gateway; None for a Unix socket."""
    gateway_tls: TLSFiles | None = None
    """Certificate and key of the gateway at that address, and the authorities that workers trust;
    None to disable TLS."""
    drain_timeout_s: float = 60.0
    """Seconds to continue after a stop signal until everything is delivered."""
    until_done: bool = False
    """Whether to stop when every source has ended, every window has closed, and everything is
    processed and delivered."""
    dashboard: DashboardSettings = DashboardSettings(Address("127.0.0.1", "7990"))
    """How the dashboard is served."""
    reload: bool = False
    """Whether to switch to changed code whenever a source file of the application changes."""
    live: bool = True
    """Whether to show a live view on a terminal, if there is a dashboard."""

    @property
    def has_source_tls(self) -> bool:
        """Whether senders have to use TLS."""
        return self.traffic.source_tls.certificate is not None


@dataclass(frozen=True)
class GatewayAccess:
    """How another process reaches a gateway."""

    address: Address
    """Address of the gateway's internal API."""
    token_file: Path
    """File with the gateway's token; workers find it at the same path."""
    authorities: Path | None = None
    """File with the authorities that the gateway's certificate is verified against, at the same
    path for workers; None to disable TLS."""
    patience_s: float = 600.0
    """Seconds to retry while the gateway is unavailable: replacing a lost node takes minutes."""

    @property
    def location(self) -> str:
        """Location of the internal API."""
        return location_of(host_and_port(self.address), secret=self.authorities is not None)


@dataclass(frozen=True)
class ExecutorSettings:
    """How executors run in pods."""

    image: str | None = None
    """Their image; required on Kubernetes."""
    prefix: str | None = None
    """Prefix of their names; None for the name of the driver's pod."""
    template: Path | None = None
    """Pod template."""
    secret_file: Path | None = None
    """File with the secret of Spark's own connections, at the same path for workers; None to let
    Spark create one, which can be read in the specifications of the pods."""
    count_from: str | None = None
    """ConfigMap with their number, which the driver follows; None to start `workers` of them."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(RunSettings):
    """Settings of `wallaroo driver`, which uses an existing gateway."""

    gateway: GatewayAccess
    """The gateway."""
    state_dir: Path
    """State directory; executors find it at the same path."""
    partitions: int
    """Number of partitions."""
    executors: ExecutorSettings = field(default_factory=ExecutorSettings)
    """How executors run in pods."""
    health: Address | None = None
    """Address of the health endpoints; None to disable them."""
    takes_over: bool = False
    """Whether to start beside a driver that runs, and to take over from it; without it, a second
    driver ends."""
    successor_s: float = 0.0
    """Seconds to continue after a stop signal until another driver can take over; 0 to stop
    at once. A pod has to have more than 30 seconds longer to end."""


@dataclass(frozen=True, kw_only=True)
class GatewayProcessSettings:
    """Settings of `wallaroo gateway`, on a cluster or as a child of `wallaroo run`."""

    application: ApplicationRef
    """The application and its arguments."""
    gateway: GatewaySettings
    """How its gateway is set up."""
    log_level: str = "info"
    """Lowest level of log events to show."""


def host_and_port(address: Address) -> str:
    """*address* as one text.

    Example:
        >>> host_and_port(Address("::1", "7900"))
        '[::1]:7900'
    """
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
