"""`wallaroo driver`: only Spark and the query, on a cluster whose gateway runs elsewhere."""

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
    help="Address of the gateway's internal API.",
)
@click.option(
    "--token-file",
    type=FILE,
    required=True,
    help="File with the token for the gateway's internal API; executors must have it at the same "
    "path.",
)
@click.option(
    "--gateway-ca",
    type=FILE,
    help="CA certificates (PEM) that the gateway's certificate is verified against; enables TLS. "
    "Executors must have the file at the same path.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for the state; executors must have it at the same path.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    required=True,
    help="Number of partitions, the upper bound of parallelism; fixed when the state directory is "
    "created.",
)
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Number of executors to start.",
)
@click.option(
    "--workers-from",
    metavar="CONFIGMAP",
    help="ConfigMap whose `workers` is the number of executors; the driver follows its changes.",
)
@click.option(
    "--master",
    default="k8s://https://kubernetes.default.svc",
    show_default=True,
    help="Spark master URL.",
)
@click.option("--image", envvar="WALLAROO_IMAGE", help="Image of the executors.")
@click.option("--executor-prefix", help="Prefix of executors' names.  [default: the pod's name]")
@click.option(
    "--executor-template",
    type=FILE,
    help="Pod template of the executors; its container must be named `executor`.",
)
@click.option(
    "--driver-memory", default="1g", show_default=True, help="Java heap of the driver, as in 1g."
)
@click.option(
    "--health",
    type=AddressType(),
    help="Address of the health endpoints: /healthz, /readyz, /status.",
)
@click.option(
    "--ui",
    type=AddressType(),
    help="Address of the dashboard; anyone who can reach it can view it.  [default: no dashboard]",
)
@ui_token_option
@accept_option
@click.option(
    "--gateway-patience",
    default=600.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds for which to retry while the gateway is unavailable.",
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
    """Run an application's query in a pod, with executors in pods and an existing gateway.

    It is started by the application's chart; POD_NAME, POD_NAMESPACE and POD_IP identify its pod.
    Only one driver can hold the gateway's lease: a second one exits with code 1. It stops on
    SIGTERM; when it is started again, it resumes after the last committed batch.

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
