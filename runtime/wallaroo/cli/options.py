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
        help="Addresses to listen on, in the order the application takes its sources. "
        "Port 0 lets the system choose; the ready event tells which.",
    ),
    click.option(
        "-o",
        "--out",
        "outputs",
        metavar="HOST:PORT,…",
        help="Addresses to send outputs to, in the order the application takes its sinks.",
    ),
    click.option(
        "--max-frame",
        default=DEFAULT_MAX_FRAME,
        show_default=True,
        type=click.IntRange(1),
        help="Largest payload that a source accepts, in bytes, where it names no max_size.",
    ),
    click.option(
        "--log-level",
        type=LevelsType(),
        default="info",
        show_default=True,
        help="Least severe log events to show: debug, info, warning or error; also by "
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
        help="Connections to one source at most; from one address half as many.",
    ),
    click.option(
        "--idle-timeout",
        default=SourceLimits.idle_s,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds after which a sender that is silent is disconnected; 0 for never.",
    ),
    click.option(
        "--frame-timeout",
        default=SourceLimits.frame_s,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds that a frame, or each 64 KiB of a large one, may take from its first byte to "
        "its last, or its sender is disconnected; 0 for any time.",
    ),
)
"""What senders may cost."""


def source_limits(max_connections: int, idle_timeout: float, frame_timeout: float) -> SourceLimits:
    """What `source_limit_options` ask for."""
    per_peer = (max_connections + 1) // 2
    return SourceLimits(max_connections, per_peer, idle_timeout, frame_timeout)


accept_option = click.option(
    ACCEPT,
    "accept_lost_journal",
    is_flag=True,
    help="Start although the journal or the outbox is lost, or an older copy than the state: what "
    "only they held is gone, and new messages are numbered after those that were processed. Also "
    "where the state lacks last batches whose messages the journal has: their outputs come again.",
)
"""What to do about a lost journal or outbox."""
state_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="State directory of the application, which may be running.",
)
"""State that is looked at."""
error_option = click.option(
    "--on-error",
    "on_error",
    multiple=True,
    metavar="[SOURCE=]POLICY",
    help="What to do with a message that cannot be processed: set-aside keeps it (see "
    "`wallaroo dead-letters`), drop counts it, stop ends the application before the batch "
    "counts. For one source or for all; may be given several times.  [default: set-aside]",
)
"""What becomes of messages that are set aside."""


trace_option = click.option(
    "--trace-one-in",
    default=ONE_IN,
    show_default=True,
    type=click.IntRange(1),
    help="Of so many messages, one is followed from socket to socket, where OpenTelemetry's "
    "environment variables (OTEL_EXPORTER_OTLP_ENDPOINT) ask for traces.",
)
"""How many messages are followed."""


ui_token_option = click.option(
    "--ui-token-file",
    type=FILE,
    help="File with a token, of 16 characters or more; who types it into the dashboard may "
    "replay and drop dead letters.  [default: nobody may]",
)
"""Who may change something through the dashboard."""


batch_options = together(
    click.option(
        "--max-batch-mib",
        default=BatchLimits.max_bytes // 1024**2,
        show_default=True,
        type=click.IntRange(1),
        help="MiB of messages that a batch takes at most.",
    ),
    click.option(
        "--max-batch-seconds",
        default=BatchLimits.seconds,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help="Seconds that a batch is to take at most, about; it has fewer messages where "
        "they take longer.",
    ),
)
"""What a batch may take."""


def batch_limits(max_batch_mib: int, max_batch_seconds: float) -> BatchLimits:
    """What `batch_options` ask for."""
    return BatchLimits(max_batch_mib * 1024**2, max_batch_seconds)


engine_options = together(
    click.option(
        "--function-timeout",
        default=60.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds that a function of the application may take for one message, which "
        "is set aside then; 0 for no limit.",
    ),
    click.option(
        "--conf",
        "conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of Spark; may be given several times.",
    ),
)
"""What a function may take, and Spark's own settings."""


_TLS_HELPS = {
    "in-tls-cert": "Certificate, PEM, that sources show: turns TLS on for their ports.",
    "in-tls-key": "Private key of that certificate.",
    "in-tls-client-ca": "Authorities, PEM; senders have to show a certificate of theirs.",
    "out-tls-ca": "Authorities, PEM, that receivers must have a certificate of: turns TLS "
    "on for connections to sinks.",
    "out-tls-cert": "Certificate, PEM, to show to receivers.",
    "out-tls-key": "Private key of that certificate.",
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
