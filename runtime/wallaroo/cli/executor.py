"""`wallaroo executor`: what Spark starts in an executor's pod, and how it is asked to leave."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

_LEAVE_TIMEOUT_S = 50.0
"""Seconds to wait for an executor that leaves: less than its pod has to terminate."""
_LOOK_EVERY_S = 0.2


@click.command(hidden=True)
def executor() -> None:
    """Run a Spark executor, configured by the environment that Spark's Kubernetes backend sets."""
    from wallaroo.engine.spark.kubernetes import executor_command

    command = executor_command(os.environ)
    os.execv(command[0], command)  # Java itself gets the signals


def decommission() -> None:
    """Before a pod ends: ask its executor to finish its tasks, and wait until it has gone."""
    running = [process for process in Path("/proc").glob("[0-9]*") if _is_executor(process)]
    for process in running:
        os.kill(int(process.name), signal.SIGPWR)
    give_up = time.monotonic() + _LEAVE_TIMEOUT_S
    while any(map(_is_executor, running)) and time.monotonic() < give_up:
        time.sleep(_LOOK_EVERY_S)


def _is_executor(process: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return command[0].endswith(b"java") and any(
        part.endswith(b"KubernetesExecutorBackend") for part in command
    )
