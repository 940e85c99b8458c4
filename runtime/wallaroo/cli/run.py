"""`wallaroo run`: runs an application on Spark, with its gateway, until it is stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.console import Console

from wallaroo.api.addresses import Address
from wallaroo.cli.options import (
    FILE,
    AddressType,
    accept_option,
    application_options,
    application_ref,
    batch_limits,
    batch_options,
    engine_options,
    error_option,
    setting_pairs,
    source_limit_options,
    source_limits,
    tls_options,
    trace_option,
    ui_token_option,
)
from wallaroo.cli.upstream_options import UpstreamCommand
from wallaroo.engine.registry import ENGINES, VARIABLE
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.internal_api.auth import read_token
from wallaroo.observability import logs
from wallaroo.run.live_view import suits
from wallaroo.run.local import Runner
from wallaroo.run.settings import RunSettings
from wallaroo.system.tls import TLSFiles

_GIB = 1024**3
_TASK_FAILURES = 8
"""Times that local Spark tries a task: its own 1 would fail the batch with each worker killed, and
a message that kills its worker has to be found."""


@click.command(cls=UpstreamCommand)
@application_options
@source_limit_options
@error_option
@tls_options
@trace_option
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Number of worker processes of local Spark. With --master: number of ranges that a batch "
    "is read in.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    help="Number of partitions, the upper bound of parallelism; fixed when the state directory is "
    "created.  [default: the number of workers]",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for messages, outputs and state; the next run with the same directory resumes "
    "where the last one stopped.  [default: .wallaroo/NAME OF THE APPLICATION]",
)
@click.option("--master", help="Spark master URL.  [default: local[WORKERS]]")
@click.option(
    "--gateway",
    metavar="HOST:PORT",
    help="Address at which workers on other machines reach this one. Nothing else must be able to "
    "reach it.  [default: a Unix socket, for workers on this machine]",
)
@click.option(
    "--gateway-tls",
    type=(FILE,) * 3,
    metavar="CERT KEY CA",
    help="PEM files that enable TLS at --gateway: the gateway's certificate and key, and the CA "
    "certificates that workers trust. The latter must be at the same path on their machines.",
)
@batch_options
@engine_options
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    hidden=True,  # the second one cannot run every application yet
    help="What runs the application: in batches, or in chunks of a few milliseconds.",
)
@click.option(
    "--journal-limit-gib",
    default=4.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum size of the journal, in GiB of messages. When it is full, senders have to wait.",
)
@accept_option
@click.option(
    "--drain-timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to continue after a stop signal until everything is processed and delivered. "
    "Anything left after that is kept for the next start, and the exit code is 1.",
)
@click.option(
    "--ui",
    type=AddressType(),
    default="127.0.0.1:7990",
    show_default=True,
    help="Address of the dashboard and /metrics; anyone who can reach it can view them. If the "
    "port is in use, another one is chosen.",
)
@ui_token_option
@click.option("--no-ui", is_flag=True, help="Do not serve the dashboard and /metrics.")
@click.option("--no-live", is_flag=True, help="On a terminal, show only logs, without a live view.")
@click.option(
    "--until-done",
    is_flag=True,
    help="Stop when every source has ended, every window has closed, and everything is processed "
    "and delivered; for applications that read files and generators.",
)
def run(
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
    workers: int,
    partitions: int | None,
    state_dir: Path | None,
    master: str | None,
    gateway: str | None,
    gateway_tls: tuple[Path, Path, Path] | None,
    conf: tuple[str, ...],
    max_batch_mib: int,
    max_batch_seconds: float,
    function_timeout: float,
    engine: str | None,
    journal_limit_gib: float,
    accept_lost_journal: bool,
    drain_timeout: float,
    ui: Address,
    ui_token_file: Path | None,
    no_ui: bool,
    no_live: bool,
    until_done: bool,
    **tls: Path | None,
) -> None:
    """Run an application until SIGINT or SIGTERM.

    APP is a directory with an application.py, a .py file, or an importable module; it may also be
    given as --application-module APP.

    \b
    Example:
      wallaroo run apps/market_spread --workers 2 \\
        --in Orders@127.0.0.1:7010,MarketData@127.0.0.1:7011 --out 127.0.0.1:7002

    A stop signal closes the sources. Messages that were already accepted are processed and their
    outputs delivered; then the command exits with code 0. If that takes longer than
    --drain-timeout, or a second signal arrives, it exits with a warning and code 1, and the rest
    stays in the state directory. A signal during startup ends it at once, with exit code 0. When
    it is started again with the same --state-dir, it resumes exactly after the last committed
    batch.
    """  # noqa: D301  (click reads \b)
    logs.configure(log_level)
    console = Console(stderr=True)
    if engine is not None:
        os.environ[VARIABLE] = engine
    if gateway_tls is not None and gateway is None:
        msg = "--gateway-tls is for --gateway: a Unix socket needs none"
        raise UsageError(msg)
    settings = RunSettings(
        application=application_ref(app, inputs, outputs, app_args, max_frame),
        workers=workers,
        partitions=partitions or workers,
        state_dir=state_dir,
        master=master or f"local[{workers},{_TASK_FAILURES}]",
        spark=setting_pairs(conf),
        batch=batch_limits(max_batch_mib, max_batch_seconds),
        sources=source_limits(max_connections, idle_timeout, frame_timeout),
        on_error=on_error,
        tls=tls,
        call_limit_s=function_timeout,
        trace_one_in=trace_one_in,
        journal_bytes=int(journal_limit_gib * _GIB),
        accept_lost_journal=accept_lost_journal,
        drain_timeout_s=drain_timeout,
        until_done=until_done,
        gateway=gateway,
        gateway_tls=TLSFiles(*gateway_tls or ()),
        log_level=log_level,
        ui=None if no_ui else ui,
        ui_token=None if ui_token_file is None else read_token(ui_token_file),
        live=None if no_ui or no_live or not suits(console) else console,
    )
    with Runner(settings) as runner:
        if not runner.start():
            return
        failure = runner.wait()
        if failure is not None:
            raise RuntimeFailure(failure)
        all_delivered = runner.drain()
    if not all_delivered:
        sys.exit(RuntimeFailure.exit_code)
