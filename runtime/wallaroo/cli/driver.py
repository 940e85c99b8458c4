"""`wallaroo driver`: only Spark and the query, on a cluster whose gateway runs elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from wallaroo.cli.option_tree import Option, Options
from wallaroo.cli.option_types import FILE, NumberType
from wallaroo.cli.options import (
    ACCEPT_LOST_JOURNAL,
    DASHBOARD,
    DRIVER_MEMORY,
    ENGINE,
    GATEWAY_ACCESS,
    HEALTH,
    LOG_LEVEL,
    MASTER,
    PARTITIONS,
    STATE_DIR,
    TAKE_OVER,
)
from wallaroo.observability import logs
from wallaroo.run.cluster import ClusterRun
from wallaroo.run.settings import KUBERNETES, ClusterSettings, ExecutorSettings

OPTIONS = Options(
    ClusterSettings,
    engine=ENGINE.but(
        master=MASTER.but(default=KUBERNETES, show_default=True, required=False),
        memory=DRIVER_MEMORY,
    ),
    gateway=GATEWAY_ACCESS.but(
        patience_s=Option(
            "--gateway-patience",
            type=NumberType(),
            help="Seconds for which to retry while the gateway is unavailable.",
        )
    ),
    state_dir=STATE_DIR.but(callback=None),
    partitions=PARTITIONS,
    executors=Options(
        ExecutorSettings,
        count_from=Option(
            "--workers-from",
            metavar="CONFIGMAP",
            help="ConfigMap whose `workers` is the number of executors; the driver follows its "
            "changes.",
        ),
        image=Option("--image", envvar="WALLAROO_IMAGE", help="Image of the executors."),
        prefix=Option(
            "--executor-prefix", help="Prefix of executors' names.", show_default="the pod's name"
        ),
        template=Option(
            "--executor-template",
            type=FILE,
            help="Pod template of the executors; its container must be named `executor`.",
        ),
        secret_file=Option(
            "--spark-secret-file",
            type=FILE,
            help="File with the secret of the connections between driver and executors.",
            show_default="Spark creates one and passes it in the executors' pods",
        ),
    ),
    health=HEALTH,
    takes_over=TAKE_OVER,
    successor_s=Option(
        "--successor-patience",
        type=NumberType(),
        help="Seconds to continue after SIGTERM until another driver can take over.",
    ),
    dashboard=DASHBOARD,
    accept_lost_journal=ACCEPT_LOST_JOURNAL,
    log_level=LOG_LEVEL,
)


@click.command()
@OPTIONS
def driver(**options: Any) -> None:
    """Run an application's query in a pod, with executors in pods and an existing gateway.

    It is started by the application's chart; POD_NAME, POD_NAMESPACE and POD_IP identify its pod.
    Only one driver can hold the gateway's lease: a second one exits with code 1, or, with
    --take-over, starts its executors and waits until the first one hands over. It stops on SIGTERM;
    when it is started again, it resumes after the last published chunk. Executors must have the
    files of --token-file, --gateway-ca and --spark-secret-file, and the state directory, at the
    same paths.

    \b
    Example:
      wallaroo driver /app --in 0.0.0.0:7010 --out results.example:7002 --partitions 8 \\
        --gateway word-count-gateway:7900 --token-file /etc/wallaroo/token/token \\
        --spark-secret-file /etc/wallaroo/spark/secret \\
        --state-dir /var/lib/wallaroo/state --workers-from word-count-workers
    """  # noqa: D301  (click reads \b)
    settings = OPTIONS.fill(options)
    logs.configure(settings.log_level)
    with ClusterRun(settings) as running:
        starts_again = running.start() and running.wait()
    if starts_again:  # as a new process: nothing of the one before is left in it
        os.execv(sys.executable, [sys.executable, "-m", "wallaroo", *sys.argv[1:]])
