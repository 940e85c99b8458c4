"""`wallaroo gateway`: only the gateway, in a container or as a child of `wallaroo run`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from functools import partial
from typing import Any

import click
import structlog

from wallaroo.api.addresses import parse_address
from wallaroo.cli.option_tree import Option, Options
from wallaroo.cli.option_types import FILE
from wallaroo.cli.options import (
    APPLICATION,
    DEAD_LETTER_LIMITS,
    FUNCTION_TIMEOUT,
    HEALTH,
    LOG_LEVEL,
    STATE_DIR,
    TAKE_OVER,
    TOKEN_FILE,
    TRAFFIC,
)
from wallaroo.dataflow.user_logs import captured_logs
from wallaroo.errors import DamagedFile, WallarooError
from wallaroo.gateway.connector import Times
from wallaroo.gateway.internal_api.location import location_of, socket_in
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.gateway.message_times import found_elsewhere
from wallaroo.gateway.selector import new_loop
from wallaroo.gateway.settings import GatewaySettings, check_sinks, check_sources
from wallaroo.model.application import Application
from wallaroo.observability import log_channel, logs
from wallaroo.run.settings import GatewayProcessSettings, host_and_port
from wallaroo.system import imports, standard_output
from wallaroo.system.binding import MAX_PORT
from wallaroo.system.credentials import forget_token
from wallaroo.system.lifeline import end_group_with_leader, end_with_stdin
from wallaroo.system.private_files import private_files, warn_if_open
from wallaroo.system.tls import TLSFiles

OPTIONS = Options(
    GatewayProcessSettings,
    application=APPLICATION,
    gateway=Options(
        GatewaySettings,
        traffic=TRAFFIC,
        directory=STATE_DIR,
        location=Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address of the internal API, for the driver and its workers.",
        ),
        token_file=TOKEN_FILE,
        tls=Options(
            TLSFiles,
            certificate=Option(
                "--listen-tls-cert",
                type=FILE,
                help="Certificate of the internal API (PEM); enables TLS for the driver and its "
                "workers.",
            ),
            key=Option(
                "--listen-tls-key", type=FILE, help="Private key for --listen-tls-cert (PEM)."
            ),
        ),
        chunks_port=Option(
            "--chunks-port",
            metavar="PORT",
            type=click.IntRange(0, MAX_PORT),
            show_default="any free port, if --token-file is given",
            help="Port for the engine's processes, on the host of --listen.",
        ),
        health=HEALTH,
        takes_over=TAKE_OVER,
        letters=DEAD_LETTER_LIMITS,
        histories=Option(
            "--histories",
            is_flag=True,
            help="Run `wallaroo explain` for users with the token of the driver's dashboard, one "
            "at a time, in a process of at most 512 MiB; it runs code of the application.",
        ),
        call_limit_s=FUNCTION_TIMEOUT,
        ports=Option("--ports", type=int, multiple=True, hidden=True),
    ),
    log_level=LOG_LEVEL,
)

log = structlog.get_logger("wallaroo.gateway")


@click.command()
@OPTIONS
@click.option("--child", is_flag=True, hidden=True, help="Exit with the parent process.")
def gateway(child: bool, **options: Any) -> None:
    """Run an application's sources and sinks: journal its messages and deliver its outputs.

    `wallaroo run` starts a gateway itself. On a cluster it is a separate process, which
    `wallaroo driver` connects to. It stops on SIGTERM; when it is started again with the same
    --state-dir, it resumes where it stopped. The directory must be on a disk of this machine, not
    on a network share.

    \b
    Example:
      wallaroo gateway apps/word_count --in 0.0.0.0:7010 --out results.example:7002 \\
        --state-dir /var/lib/wallaroo --listen 0.0.0.0:7900 --token-file token
    """  # noqa: D301  (click reads \b)
    if os.getsid(0) == os.getpid():  # in a shell's group are processes of others, too
        end_group_with_leader()
    parent = _Parent() if child else None
    standard_output.keep()
    terminal = sys.stderr.isatty() and log_channel.VARIABLE not in os.environ
    log_channel.take_over()
    logs.configure(options["log_level"], log_channel.write, terminal=terminal)
    if parent is None:
        secret = options["listen_tls_cert"] is not None
        options["listen"] = _location(options["listen"], secret=secret)
    settings = OPTIONS.fill(options)
    forget_token()  # for drivers, not for user code here
    if parent is None:  # otherwise the parent has warned
        warn_if_open(settings.gateway.directory, "wallaroo.gateway")
    with (
        private_files(),
        captured_logs(logs.relay, process="gateway") as user_logs,
    ):
        try:
            application = settings.application.load()
            user_logs.application = application.name
            logs.configure_again()
            check_sinks(application)
            if parent is None:
                check_sources(application)
            with (
                found_elsewhere(application, settings.gateway.call_limit_s) as times,
                asyncio.Runner(loop_factory=new_loop) as runner,
            ):
                runner.run(_serve(application, settings, times, parent))
        except WallarooError as error:
            if parent is None:
                raise
            parent.report({"error": str(error), "damage": isinstance(error, DamagedFile)})
            sys.exit(error.exit_code)


def command_line(settings: GatewayProcessSettings) -> list[str]:
    """The command that starts a gateway with *settings* as a child of this process."""
    return [sys.executable, "-m", "wallaroo", "gateway", "--child", *OPTIONS.arguments(settings)]


def _location(listen: str, *, secret: bool) -> str:
    if socket_in(listen) is not None:
        return listen
    if "://" in listen:
        msg = f"{listen!r} is not HOST:PORT"
        raise click.BadParameter(msg, param_hint="--listen")
    return location_of(host_and_port(parse_address(listen, "--listen")), secret=secret)


class _Parent:
    """The parent process, behind the original stdin and stdout, which user code must not use."""

    def __init__(self) -> None:
        self._reports = os.dup(1)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        end_with_stdin()

    def report(self, content: object) -> None:
        """Send *content* to the parent, as a line of JSON."""
        with open(self._reports, "w", closefd=False) as stream:
            print(json.dumps(content), file=stream)


async def _serve(
    application: Application,
    settings: GatewayProcessSettings,
    times: Times,
    parent: _Parent | None,
) -> None:
    with imports.kept():
        from wallaroo.gateway.server import serve  # not needed for a command line

    served = partial(serve, application, settings.gateway, times, settings.application)
    if parent is None:
        await served(_log_ready, stop_signals=(signal.SIGTERM, signal.SIGINT))
        return
    await served(lambda status: parent.report(dataclasses.asdict(status)))


def _log_ready(status: GatewayStatus) -> None:
    log.info("ready", sources={s.name: s.where for s in status.sources})
