"""`wallaroo run`: runs an application on Spark, with its gateway, until it is stopped."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from wallaroo.cli.gateway import command_line
from wallaroo.cli.option_tree import Option, Options
from wallaroo.cli.option_types import FILE, NumberType
from wallaroo.cli.options import (
    ACCEPT_LOST_JOURNAL,
    DASHBOARD,
    ENGINE,
    GATEWAY,
    LOG_LEVEL,
    MASTER,
    PARTITIONS,
    STATE_OF_APP,
    TRAFFIC,
)
from wallaroo.cli.upstream_options import UpstreamCommand
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.spark.java import Java
from wallaroo.engine.spark.s3 import jars_for
from wallaroo.engine.spark.user_settings import check
from wallaroo.errors import RuntimeFailure
from wallaroo.observability import logs
from wallaroo.run.settings import LocalSettings
from wallaroo.system import imports, standard_output
from wallaroo.system.lifeline import end_with_stdin
from wallaroo.system.tls import TLSFiles

OPTIONS = Options(
    LocalSettings,
    engine=ENGINE.but(master=MASTER.but(required=False, show_default="local[WORKERS]")),
    state_dir=STATE_OF_APP,
    partitions=PARTITIONS.but(show_default="the number of workers"),
    traffic=TRAFFIC,
    gateway=GATEWAY.but(show_default="a Unix socket, for workers on this machine"),
    gateway_tls=Option(
        "--gateway-tls",
        type=(FILE,) * 3,
        metavar="CERT KEY CA",
        help="PEM files that enable TLS at --gateway: the gateway's certificate and key, and the "
        "CA certificates that workers trust. The latter must be at the same path on their "
        "machines.",
        read=lambda files: TLSFiles(*files),
    ),
    accept_lost_journal=ACCEPT_LOST_JOURNAL,
    drain_timeout_s=Option(
        "--drain-timeout",
        type=NumberType(),
        help="Seconds to continue after a stop signal until everything is processed and delivered. "
        "Anything left after that is kept for the next start, and the exit code is 1.",
    ),
    until_done=Option(
        "--until-done",
        is_flag=True,
        help="Stop when every source has ended, every window has closed, every timer has been "
        "called, and everything is processed and delivered; for applications that read files and "
        "generators.",
    ),
    reload=Option(
        "--reload",
        is_flag=True,
        help="Reload the application whenever one of its source files changes, and keep its state. "
        "Code that does not work is reported, and the previous code keeps running. For "
        "development, on local Spark.",
    ),
    dashboard=DASHBOARD,
    log_level=LOG_LEVEL,
)


@click.command(cls=UpstreamCommand)
@OPTIONS
@click.option("--no-ui", is_flag=True, help="Do not serve the dashboard and /metrics.")
@click.option("--no-live", is_flag=True, help="On a terminal, show only logs, without a live view.")
@click.option("--child", is_flag=True, hidden=True, help="Exit with the parent process.")
def run(no_ui: bool, no_live: bool, child: bool, **options: Any) -> None:
    """Run an application until SIGINT or SIGTERM.

    APP is a directory with an application.py, a .py file, or an importable module; it may also be
    given as --application-module APP.

    \b
    Example:
      wallaroo run apps/market_spread --workers 2 \\
        --in Orders@127.0.0.1:7010,MarketData@127.0.0.1:7011 --out 127.0.0.1:7002

    --in - reads lines of standard input, each a message, and --out - prints outputs, for
    applications that take their addresses from these options. The run stops when standard input
    ends and everything is processed:

    \b
      printf 'ada\\ngrace\\nada\\n' | wallaroo run votes.py --in - --out -

    A stop signal closes the sources. Messages that were already accepted are processed and their
    outputs delivered; then the command exits with code 0. If that takes longer than
    --drain-timeout, or a second signal arrives, it exits with a warning and code 1, and the rest
    stays in the state directory. If a process of the run does not respond, the stop is given up
    60 s after that timeout, or 20 s after a second signal. A signal during startup ends it at once,
    with exit code 0. When it is started again with the same --state-dir, it resumes exactly after
    the last published chunk.
    """  # noqa: D301  (click reads \b)
    standard_output.keep()
    if child:
        end_with_stdin()
    if options["master"] is None:
        options["master"] = f"local[{options['workers']}]"
    if no_ui:
        options["ui"] = None
    settings = OPTIONS.fill(options, live=not no_live)
    logs.configure(settings.log_level)
    check(settings.engine.spark)
    with contextlib.ExitStack() as at_end:
        jars = (jar(), *jars_for(settings.state_dir))
        java = Java.of_driver(settings.engine.spark, settings.engine.memory, jars)
        at_end.callback(java.discard)
        with imports.kept():
            from wallaroo.run.local import LocalRun  # loaded while Java starts

        running = at_end.enter_context(LocalRun(settings, command_line, java))
        if not running.start():
            return
        failure = running.wait()
        if failure is not None:
            raise RuntimeFailure(failure)
        all_delivered = running.drain()
    if not all_delivered:
        sys.exit(RuntimeFailure.exit_code)
