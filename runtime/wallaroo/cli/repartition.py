"""`wallaroo repartition`: changes the number of partitions of a stopped application."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import structlog

from wallaroo.cli.option_tree import Options
from wallaroo.cli.options import (
    APPLICATION,
    DRIVER_MEMORY,
    FUNCTION_TIMEOUT,
    GATEWAY,
    GATEWAY_ACCESS,
    LOG_LEVEL,
    MAX_ENTITY,
    PARTITIONS,
    SPARK_SETTINGS,
    STATE_DIR_OF_APP,
    TOKEN_FILE,
)
from wallaroo.engine.realtime.offline_state import has_ended
from wallaroo.engine.realtime.offline_state import repartition as divide
from wallaroo.engine.settings import EngineSettings
from wallaroo.errors import UsageError
from wallaroo.observability import logs
from wallaroo.run.settings import RunSettings
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.location import default_state_dir
from wallaroo.run.unfinished_epoch import finish_unfinished_epoch
from wallaroo.run.user_output import captured_user_output
from wallaroo.system.printable import counted
from wallaroo.system.private_files import private_files

_CORES = os.cpu_count() or 1

log = structlog.get_logger("wallaroo")


_ENGINE = Options(
    EngineSettings,
    application=APPLICATION,
    memory=DRIVER_MEMORY,
    call_limit_s=FUNCTION_TIMEOUT,
    entity_limit_bytes=MAX_ENTITY,
    spark=SPARK_SETTINGS,
)
_GATEWAY = GATEWAY_ACCESS.but(
    address=GATEWAY.but(required=False), token_file=TOKEN_FILE.but(required=False)
)


@click.command()
@_ENGINE
@STATE_DIR_OF_APP
@PARTITIONS.but(required=True)
@_GATEWAY
@LOG_LEVEL.but(default=RunSettings.log_level, show_default=True)
@private_files()
def repartition(state_dir: Path | None, partitions: int, log_level: str, **options: Any) -> None:
    """Change an application's number of partitions, the upper bound of its parallelism.

    The application must have been stopped cleanly. If its driver was killed, the gateway must be
    running, and --gateway and --token-file must be set, so that the unfinished epoch can be
    finished first. The maximum is the number of buckets, which is eight times the original number
    of partitions; divisors of it distribute the buckets evenly. State that already has this number
    of partitions is left unchanged, as is a directory that no application has used yet. On a
    cluster, the chart does this: `helm upgrade --set partitions=16,repartition=true`.

    \b
    Example:
      wallaroo repartition apps/word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002 \\
        --partitions 4
    """  # noqa: D301  (click reads \b)
    logs.configure(log_level)
    if (options["gateway"] is None) != (options["token_file"] is None):
        msg = "--gateway and --token-file must be used together"
        raise UsageError(msg)
    gateway = None if options["gateway"] is None else _GATEWAY.fill(options)
    settings = _ENGINE.fill(options, master=f"local[{_CORES}]", workers=_CORES, everywhere=True)
    with captured_user_output():
        application = settings.application.load()
    state_dir = state_dir or default_state_dir(settings.application, application.name)
    if not state_dir.is_dir():
        msg = f"there is no directory {state_dir}: use the state directory of the application"
        raise UsageError(msg)
    if not StateDirectory.has_state(state_dir):
        log.info("nothing to repartition", reason=f"{state_dir} contains no state yet")
        return
    state = StateDirectory(state_dir, application.name, partitions)
    try:
        before = state.fixed.partitions
        if before == partitions:
            log.info(
                "nothing to repartition",
                reason=f"the state is divided into {counted(partitions, 'partition')} already",
            )
            return
        state.check_repartition(partitions)
        if not state.is_new:
            if gateway is not None and not has_ended(state.layout):
                finish_unfinished_epoch(settings, state, gateway)
            divide(state.layout, partitions, settings.master, settings.memory)
        state.repartitioned(partitions)
        log.info("repartitioned", state_dir=str(state.path), before=before, partitions=partitions)
    finally:
        state.close()
