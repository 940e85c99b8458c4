"""`wallaroo gateway`: the edge alone, as `wallaroo run` starts it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import click

from wallaroo import logs
from wallaroo.cli.options import (
    application_options,
    application_ref,
    source_limit_options,
    source_limits,
)
from wallaroo.edge.gateway import GatewaySettings, serve
from wallaroo.edge.journal import JournalLimits
from wallaroo.errors import WallarooError
from wallaroo.model.application import Application


@click.command(hidden=True)
@application_options
@source_limit_options
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="Its data.")
@click.option("--location", required=True, help="Where its inner door listens.")
@click.option("--ports", help="Ports to bind, by source, instead of those in --in.")
@click.option("--journal-limit", type=click.IntRange(1), required=True, help="Bytes on disk.")
def gateway(
    app: str,
    inputs: str | None,
    outputs: str | None,
    max_frame: int,
    log_level: str,
    app_args: tuple[str, ...],
    max_connections: int,
    idle_timeout: float,
    directory: Path,
    location: str,
    ports: str | None,
    journal_limit: int,
) -> None:
    """Own the sources and sinks of an application: journal what arrives, deliver what comes out.

    Writes one JSON line on standard output once every address is bound, or says there why it
    cannot start; ends on SIGTERM, or when its standard input is closed.
    """
    logs.configure(log_level)
    application = application_ref(app, inputs, outputs, app_args, max_frame).load()
    limits = JournalLimits(disk_bytes=journal_limit)
    bound = [int(port) for port in ports.split(",")] if ports else ()
    settings = GatewaySettings(
        directory,
        location,
        journal=limits,
        sources=source_limits(max_connections, idle_timeout),
        ports=bound,
    )
    try:
        asyncio.run(_serve(application, settings))
    except WallarooError as error:
        _tell({"error": str(error)})
        sys.exit(error.exit_code)


async def _serve(application: Application, settings: GatewaySettings) -> None:
    loop, parent = asyncio.get_running_loop(), sys.stdin.fileno()

    def parent_spoke() -> None:
        if not os.read(parent, 1024):
            loop.remove_reader(parent)
            os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent, parent_spoke)
    await serve(application, settings, lambda status: _tell(dataclasses.asdict(status)))


def _tell(what: object) -> None:
    print(json.dumps(what), flush=True)
