"""`wallaroo driver`: Spark and the query alone, on a cluster whose gateway runs elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

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
    setting_pairs,
    ui_token_option,
)
from wallaroo.gateway.internal_api.auth import read_token
from wallaroo.observability import logs
from wallaroo.run.cluster import ClusterRun, DriverSettings


@click.command()
@application_options
@click.option(
    "--gateway",
    type=AddressType(),
    required=True,
    help="Where the gateway's internal API is.",
)
@click.option(
    "--token-file",
    type=FILE,
    required=True,
    help="File with the gateway's token; executors must have it at the same path.",
)
@click.option(
    "--gateway-ca",
    type=FILE,
    help="Authorities, PEM, that the gateway must have a certificate of: turns TLS on. Executors "
    "must have the file at the same path.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where state is kept; executors must have it at the same path.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    required=True,
    help="Partitions of the state, the upper bound of parallelism; fixed when the state "
    "directory is new.",
)
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), help="Executors to start."
)
@click.option(
    "--workers-from",
    metavar="CONFIGMAP",
    help="ConfigMap whose `workers` is the number of executors, now and whenever it changes.",
)
@click.option(
    "--master",
    default="k8s://https://kubernetes.default.svc",
    show_default=True,
    help="Spark master URL.",
)
@click.option("--image", envvar="WALLAROO_IMAGE", help="Image of the executors: this one.")
@click.option("--executor-prefix", help="How names of executors begin.  [default: the pod's name]")
@click.option(
    "--executor-template",
    type=FILE,
    help="Pod that executors are made from; its container is `executor`.",
)
@click.option(
    "--driver-memory", default="1g", show_default=True, help="Heap of Spark's driver, as in 1g."
)
@click.option(
    "--health",
    type=AddressType(),
    help="Where probes are answered: /healthz, /readyz, /status.",
)
@click.option(
    "--ui",
    type=AddressType(),
    help="Where the dashboard is served; whoever gets there can look at it.  [default: nowhere]",
)
@ui_token_option
@accept_option
@click.option(
    "--gateway-patience",
    default=600.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to go on trying while the gateway is away.",
)
@batch_options
@engine_options
def driver(
    app: str,
    inputs: str | None,
    outputs: str | None,
    max_frame: int,
    log_level: str,
    app_args: tuple[str, ...],
    gateway: Address,
    token_file: Path,
    gateway_ca: Path | None,
    state_dir: Path,
    partitions: int,
    workers: int,
    workers_from: str | None,
    master: str,
    image: str | None,
    executor_prefix: str | None,
    executor_template: Path | None,
    driver_memory: str,
    health: Address | None,
    ui: Address | None,
    ui_token_file: Path | None,
    accept_lost_journal: bool,
    gateway_patience: float,
    max_batch_mib: int,
    max_batch_seconds: float,
    function_timeout: float,
    conf: tuple[str, ...],
) -> None:
    """Run an application's query in a pod, on executors in pods, with a gateway that is there.

    The chart of the application starts it; POD_NAME, POD_NAMESPACE and POD_IP tell which pod it is
    in. One driver has the gateway: a second one ends with exit code 1. It ends on SIGTERM, and goes
    on where the last committed batch ended when it is started again.

    \b
    Example:
      wallaroo driver /app --in 0.0.0.0:7010 --out results.example:7002 --partitions 8 \\
        --gateway word-count-gateway:7900 --token-file /etc/wallaroo/token/token \\
        --state-dir /var/lib/wallaroo/state --workers-from word-count-workers
    """  # noqa: D301  (click reads \b)
    logs.configure(log_level)
    settings = DriverSettings(
        application=application_ref(app, inputs, outputs, app_args, max_frame),
        gateway=gateway,
        token_file=token_file,
        gateway_ca=gateway_ca,
        state_dir=state_dir,
        partitions=partitions,
        workers=workers,
        workers_from=workers_from,
        master=master,
        image=image,
        executor_prefix=executor_prefix,
        executor_template=executor_template,
        memory=driver_memory,
        health=health,
        ui=ui,
        ui_token=None if ui_token_file is None else read_token(ui_token_file),
        accept_lost_journal=accept_lost_journal,
        patience_s=gateway_patience,
        batch=batch_limits(max_batch_mib, max_batch_seconds),
        call_limit_s=function_timeout,
        spark=setting_pairs(conf),
    )
    with ClusterRun(settings) as run:
        if run.start():
            run.wait()
