"""Options that several subcommands share, and the values they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from wallaroo.api.addresses import Address, parse_address
from wallaroo.engine.batch_sizing import BatchLimits
from wallaroo.errors import UsageError
from wallaroo.gateway.connectors.tcp.limits import SourceLimits
from wallaroo.gateway.consistency.agreement import ACCEPT
from wallaroo.model.application import Application
from wallaroo.model.loader import ApplicationRef
from wallaroo.observability.logs import parse_levels
from wallaroo.observability.tracing import ONE_IN
from wallaroo.system.tls import TLSFiles
from wallaroo.wire.framing import DEFAULT_MAX_FRAME

_ENOUGH = ",".join(["127.0.0.1:0"] * 16)
"""Addresses for an application that is not going to run."""

Command = TypeVar("Command", bound=Callable[..., Any])
"""A function that is becoming a command."""


FILE = click.Path(path_type=Path, dir_okay=False)
"""A file, as a click type."""


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """What gives a command all of *options*, in their order."""

    def give(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return give


class AddressType(click.ParamType):  # type: ignore[type-arg]
    """`HOST:PORT`, as a click type."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        """Read *value*, which may be an address already."""
        if isinstance(value, Address):
            return value
        option = param.opts[0] if param else "address"
        try:
            return parse_address(str(value), option)
        except UsageError as error:  # click names the option, too
            self.fail(str(error).removeprefix(f"{option}: "), param, ctx)


class LevelsType(click.ParamType):  # type: ignore[type-arg]
    """Log levels, as a click type."""

    name = "LEVELS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check *value*."""
        try:
            parse_levels(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)


application_options = together(
    click.argument("app"),
    click.option(
        "-i",
        "--in",
        "inputs",
        metavar="[NAME@]HOST:PORT,…",
        help="Addresses to listen on, in the order in which the application defines its sources. "
        "With port 0 the system chooses a port; the ready event shows it.",
    ),
    click.option(
        "-o",
        "--out",
        "outputs",
        metavar="HOST:PORT,…",
        help="Addresses to send outputs to, in the order in which the application defines its "
        "sinks.",
    ),
    click.option(
        "--max-frame",
        default=DEFAULT_MAX_FRAME,
        show_default=True,
        type=click.IntRange(1),
        help="Largest payload that a source accepts, in bytes, unless it sets max_size.",
    ),
    click.option(
        "--log-level",
        type=LevelsType(),
        default="info",
        show_default=True,
        help="Lowest level of log events to show: debug, info, warning or error; optionally by "
        "part (driver, gateway, worker, spark, application), as in info,spark=debug.",
    ),
    click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]"),
)
"""APP, its addresses and its arguments."""


source_limit_options = together(
    click.option(
        "--max-connections",
        default=SourceLimits.connections,
        show_default=True,
        type=click.IntRange(1),
        help="Maximum number of connections per source; a single address may open half as many.",
    ),
    click.option(
        "--idle-timeout",
        default=SourceLimits.idle_s,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds after which an idle sender is disconnected; 0 for never.",
    ),
    click.option(
        "--frame-timeout",
        default=SourceLimits.frame_s,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds within which a frame, or each 64 KiB of a large one, must arrive completely; "
        "otherwise its sender is disconnected. 0 for no limit.",
    ),
)
"""Limits on senders."""


def source_limits(max_connections: int, idle_timeout: float, frame_timeout: float) -> SourceLimits:
    """What `source_limit_options` ask for."""
    per_peer = (max_connections + 1) // 2
    return SourceLimits(max_connections, per_peer, idle_timeout, frame_timeout)


accept_option = click.option(
    ACCEPT,
    "accept_lost_journal",
    is_flag=True,
    help="Start even if the journal or the outbox is lost or older than the state: data that only "
    "they held is lost, and new offsets continue after those already processed. Also start if the "
    "state lacks the last batches but the journal still has their messages: they are processed "
    "again, and their outputs are sent a second time.",
)
"""What to do about a lost journal or outbox."""
state_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="State directory of the application; the application may be running.",
)
"""The state directory to inspect."""
error_option = click.option(
    "--on-error",
    "on_error",
    multiple=True,
    metavar="[SOURCE=]POLICY",
    help="What to do with a message that cannot be processed: set-aside keeps it as a dead letter "
    "(see `wallaroo dead-letters`), drop only counts it, stop stops the application before the "
    "batch is committed. For one source or for all; may be repeated.  [default: set-aside]",
)
"""What to do with messages that cannot be processed."""


trace_option = click.option(
    "--trace-one-in",
    default=ONE_IN,
    show_default=True,
    type=click.IntRange(1),
    help="Trace one in this many messages from socket to socket, if OpenTelemetry's environment "
    "variables (OTEL_EXPORTER_OTLP_ENDPOINT) enable tracing.",
)
"""The share of messages that are traced."""


ui_token_option = click.option(
    "--ui-token-file",
    type=FILE,
    help="File with a token of at least 16 characters. Users who enter it in the dashboard may "
    "replay and drop dead letters.  [default: nobody may]",
)
"""The token for changes through the dashboard."""


batch_options = together(
    click.option(
        "--max-batch-mib",
        default=BatchLimits.max_bytes // 1024**2,
        show_default=True,
        type=click.IntRange(1),
        help="Maximum size of a batch, in MiB of messages.",
    ),
    click.option(
        "--max-batch-seconds",
        default=BatchLimits.seconds,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help="Approximate maximum duration of a batch, in seconds; batches get smaller if their "
        "messages take longer.",
    ),
)
"""Limits on batches."""


def batch_limits(max_batch_mib: int, max_batch_seconds: float) -> BatchLimits:
    """What `batch_options` ask for."""
    return BatchLimits(max_batch_mib * 1024**2, max_batch_seconds)


engine_options = together(
    click.option(
        "--function-timeout",
        default=60.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds that a function of the application may take for one message before the "
        "message becomes a dead letter; 0 for no limit.",
    ),
    click.option(
        "--conf",
        "conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Spark setting; may be repeated.",
    ),
)
"""The time limit of functions, and Spark's own settings."""


_TLS_HELPS = {
    "in-tls-cert": "Certificate of the sources (PEM); enables TLS on their ports.",
    "in-tls-key": "Private key for --in-tls-cert (PEM).",
    "in-tls-client-ca": "CA certificates (PEM) that client certificates of senders are verified "
    "against; senders without one are rejected.",
    "out-tls-ca": "CA certificates (PEM) that receivers' certificates are verified against; "
    "enables TLS for connections to receivers.",
    "out-tls-cert": "Client certificate to present to receivers (PEM).",
    "out-tls-key": "Private key for --out-tls-cert (PEM).",
}
tls_options = together(
    *(click.option(f"--{name}", type=FILE, help=told) for name, told in _TLS_HELPS.items())
)
"""TLS on the ports of sources and sinks."""


def tls_files(options: Mapping[str, Path | None]) -> tuple[TLSFiles, TLSFiles]:
    """What `tls_options` ask for, for sources and for sinks."""
    sources = (options["in_tls_cert"], options["in_tls_key"], options["in_tls_client_ca"])
    sinks = (options["out_tls_cert"], options["out_tls_key"], options["out_tls_ca"])
    return TLSFiles(*sources), TLSFiles(*sinks)


def application_ref(
    app: str, inputs: str | None, outputs: str | None, app_args: tuple[str, ...], max_frame: int
) -> ApplicationRef:
    """What the application options name."""
    args = [*(("--in", inputs) if inputs else ()), *(("--out", outputs) if outputs else ())]
    return ApplicationRef(app, (*args, *app_args), max_frame)


def setting_pairs(texts: Sequence[str]) -> dict[str, str]:
    """The settings of Spark that `--conf KEY=VALUE` gave.

    Example:
        >>> setting_pairs(["spark.executor.memory=1g"])
        {'spark.executor.memory': '1g'}
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            msg = f"{text!r} is not KEY=VALUE"
            raise click.BadParameter(msg, param_hint="--conf")
        pairs[key] = value
    return pairs


def application_to_look_at(app: str, app_args: tuple[str, ...]) -> Application:
    """The application APP, with addresses enough, for commands that do not run it.

    Raises:
        UsageError: There is no such application.
        ApplicationError: It does not load, or is not well formed.
    """
    return application_ref(app, _ENOUGH, _ENOUGH, app_args, DEFAULT_MAX_FRAME).load()
