"""`wallaroo gateway`: only the gateway, in a container or as a child of `wallaroo run`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import click
import structlog

from wallaroo.api.addresses import Address, parse_address
from wallaroo.cli.options import (
    FILE,
    AddressType,
    application_options,
    application_ref,
    error_option,
    source_limit_options,
    source_limits,
    tls_files,
    tls_options,
    trace_option,
)
from wallaroo.dataflow.user_logs import captured_logs
from wallaroo.errors import WallarooError
from wallaroo.gateway.dead_letters.policy import policies
from wallaroo.gateway.dead_letters.store import DeadLetterLimits
from wallaroo.gateway.internal_api.auth import location_of, read_token
from wallaroo.gateway.internal_api.client import GatewayStatus
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.server import serve
from wallaroo.gateway.settings import GatewaySettings, check_sinks
from wallaroo.model.application import Application
from wallaroo.observability import log_channel, logs
from wallaroo.system.lifeline import end_with
from wallaroo.system.tls import TLSFiles

_MIB, _GIB = 1024**2, 1024**3
_DAY_S = 24 * 3600.0

log = structlog.get_logger("wallaroo.gateway")


@click.command()
@application_options
@source_limit_options
@error_option
@tls_options
@trace_option
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for messages and outputs: on a disk of this machine, not a network share.",
)
@click.option(
    "--listen",
    required=True,
    metavar="HOST:PORT",
    help="Address of the internal API, for the driver and its workers.",
)
@click.option(
    "--token-file",
    type=FILE,
    help="File with the token that the internal API requires.",
)
@click.option(
    "--listen-tls-cert",
    type=FILE,
    help="Certificate of the internal API (PEM); enables TLS for the driver and its workers.",
)
@click.option(
    "--listen-tls-key",
    type=FILE,
    help="Private key for --listen-tls-cert (PEM).",
)
@click.option(
    "--health",
    type=AddressType(),
    help="Address of the health endpoints: /healthz, /readyz, /status.",
)
@click.option(
    "--journal-limit-gib",
    default=4.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum size of the journal, in GiB of messages. When it is full, senders have to wait.",
)
@click.option(
    "--dead-letters-mib",
    default=DeadLetterLimits.size_bytes / _MIB,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum size of all dead letters, in MiB. Beyond it, the oldest are removed and counted.",
)
@click.option(
    "--dead-letters-days",
    default=DeadLetterLimits.age_s / _DAY_S,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Days after which dead letters are removed.",
)
@click.option(
    "--child", is_flag=True, hidden=True, help="Report to the parent on stdout; exit with it."
)
@click.option("--ports", hidden=True, help="Ports to bind, by source, instead of those in --in.")
def gateway(
    app: str,
    inputs: str | None,
    outputs: str | None,
    max_frame: int,
    log_level: str,
    app_args: tuple[str, ...],
    max_connections: int,
    idle_timeout: float,
    frame_timeout: float,
    on_error: tuple[str, ...],
    trace_one_in: int,
    state_dir: Path,
    listen: str,
    token_file: Path | None,
    listen_tls_cert: Path | None,
    listen_tls_key: Path | None,
    health: Address | None,
    journal_limit_gib: float,
    dead_letters_mib: float,
    dead_letters_days: float,
    child: bool,
    ports: str | None,
    **tls: Path | None,
) -> None:
    """Run an application's sources and sinks: journal its messages and deliver its outputs.

    `wallaroo run` starts a gateway itself. On a cluster it is a separate process, which
    `wallaroo driver` connects to. It stops on SIGTERM; when it is started again with the same
    --state-dir, it resumes where it stopped.

    \b
    Example:
      wallaroo gateway apps/word_count --in 0.0.0.0:7010 --out results.example:7002 \\
        --state-dir /var/lib/wallaroo --listen 0.0.0.0:7900 --token-file token
    """  # noqa: D301  (click reads \b)
    parent = _Parent() if child else None
    terminal = sys.stderr.isatty() and log_channel.VARIABLE not in os.environ
    log_channel.take_over()
    logs.configure(log_level, log_channel.write, terminal=terminal)
    location = listen
    if "://" not in listen:
        host, port = parse_address(listen, "--listen")
        location = location_of(f"{host}:{port}", secret=listen_tls_cert is not None)
    elif not listen.startswith("grpc+unix://") and not child:
        msg = f"{listen!r} is not HOST:PORT"
        raise click.BadParameter(msg, param_hint="--listen")
    with captured_logs(logs.relay, process="gateway") as user_logs:
        try:
            application = application_ref(app, inputs, outputs, app_args, max_frame).load()
            user_logs.application = application.name
            logs.configure_again()
            check_sinks(application)
            source_tls, sink_tls = tls_files(tls)
            settings = GatewaySettings(
                state_dir,
                location,
                certificate=TLSFiles(listen_tls_cert, listen_tls_key).for_internal_api(),
                token=None if token_file is None else read_token(token_file),
                health=health,
                journal=JournalLimits(disk_bytes=int(journal_limit_gib * _GIB)),
                sources=source_limits(max_connections, idle_timeout, frame_timeout),
                trace_one_in=trace_one_in,
                policies=policies(on_error, application),
                source_tls=source_tls.serving(),
                sink_tls=sink_tls.connecting(),
                letters=DeadLetterLimits(int(dead_letters_mib * _MIB), dead_letters_days * _DAY_S),
                ports=[int(port) for port in ports.split(",")] if ports else (),
            )
            asyncio.run(_serve(application, settings, parent))
        except WallarooError as error:
            if parent is None:
                raise
            parent.tell({"error": str(error)})
            sys.exit(error.exit_code)


class _Parent:
    """The process that started this one, by what were stdin and stdout: user code has others."""

    def __init__(self) -> None:
        ends = os.dup(0)
        self._told = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)
        end_with(ends)

    def tell(self, what: object) -> None:
        """Tell it *what*, as a line of JSON."""
        with open(self._told, "w", closefd=False) as told:
            print(json.dumps(what), file=told)


async def _serve(
    application: Application, settings: GatewaySettings, parent: _Parent | None
) -> None:
    if parent is None:
        await serve(application, settings, _log_ready, stop_signals=(signal.SIGTERM, signal.SIGINT))
        return
    await serve(application, settings, lambda status: parent.tell(dataclasses.asdict(status)))


def _log_ready(status: GatewayStatus) -> None:
    log.info("ready", sources={s.name: s.where for s in status.sources})
