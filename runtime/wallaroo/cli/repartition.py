"""`wallaroo repartition`: changes the number of partitions of a stopped application."""

from __future__ import annotations

import os
from pathlib import Path

import click
import structlog

from wallaroo.api.addresses import Address
from wallaroo.cli.options import (
    FILE,
    AddressType,
    application_options,
    application_ref,
    engine_options,
    setting_pairs,
)
from wallaroo.engine.base import EngineSettings
from wallaroo.engine.batch_sizing import BatchLimits
from wallaroo.engine.registry import engine
from wallaroo.errors import UsageError
from wallaroo.observability import logs
from wallaroo.run.leftover_batch import end_batch
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.user_output import hearing

_CORES = os.cpu_count() or 1

log = structlog.get_logger("wallaroo")


@click.command()
@application_options
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="State directory of the application; the application must be stopped.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    required=True,
    help="New number of partitions.",
)
@click.option("--memory", default="1g", show_default=True, help="Java heap of Spark, as in 1g.")
@click.option(
    "--gateway",
    type=AddressType(),
    help="Address of the gateway's internal API, needed to finish a batch that a killed driver has "
    "left.",
)
@click.option(
    "--token-file",
    type=FILE,
    help="File with the token for the gateway's internal API.",
)
@click.option(
    "--gateway-ca",
    type=FILE,
    help="CA certificates (PEM) that the gateway's certificate is verified against; enables TLS.",
)
@engine_options
def repartition(
    app: str,
    inputs: str | None,
    outputs: str | None,
    max_frame: int,
    log_level: str,
    app_args: tuple[str, ...],
    state_dir: Path,
    partitions: int,
    memory: str,
    gateway: Address | None,
    token_file: Path | None,
    gateway_ca: Path | None,
    function_timeout: float,
    conf: tuple[str, ...],
) -> None:
    """Change an application's number of partitions, the upper bound of its parallelism.

    The application must have been stopped cleanly. If its driver was killed, the gateway must be
    running, so that the unfinished batch can be finished first. The maximum is the number of
    buckets, which is eight times the original number of partitions; divisors of it distribute the
    buckets evenly. State that already has this number of partitions is left unchanged, as is a
    directory that no application has used yet. On a cluster, the chart does this: `helm upgrade
    --set partitions=16,repartition=true`.

    \b
    Example:
      wallaroo repartition apps/word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002 \\
        --state-dir .wallaroo/word_count --partitions 4
    """  # noqa: D301  (click reads \b)
    logs.configure(log_level)
    if (gateway is None) != (token_file is None):
        msg = "--gateway and --token-file go together: give both, or neither"
        raise UsageError(msg)
    reference = application_ref(app, inputs, outputs, app_args, max_frame)
    with hearing():
        application = reference.load()
    if not state_dir.is_dir():
        msg = f"there is no directory {state_dir}: give the state directory of the application"
        raise UsageError(msg)
    if not StateDirectory.has_state(state_dir):
        log.info("nothing to repartition", reason=f"there is no state in {state_dir} yet")
        return
    state = StateDirectory(state_dir, application.name, partitions)
    try:
        before = state.fixed.partitions
        if before == partitions:
            log.info("nothing to repartition", reason=f"there are {partitions} partitions already")
            return
        state.check_repartition(partitions)
        if not state.is_new:
            last, master = engine().last_batch(state.checkpoint), f"local[{_CORES}]"
            # one with another number is this command's own, broken off
            if (
                gateway is not None
                and token_file is not None
                and not last.ended
                and last.partitions == before
            ):
                how = EngineSettings(
                    reference,
                    master,
                    _CORES,
                    BatchLimits(),  # that batch is planned already
                    memory,
                    everywhere=True,
                    spark=setting_pairs(conf),
                    call_limit_s=function_timeout,
                )
                end_batch(how, state, gateway, token_file, gateway_ca)
            engine().repartition(state.layout, partitions, master, memory)
        state.repartitioned(partitions)
        log.info("repartitioned", state_dir=str(state.path), before=before, partitions=partitions)
    finally:
        state.close()
