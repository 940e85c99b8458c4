"""`wallaroo executor`: runs and decommissions a Spark executor in its pod."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from wallaroo.system.private_files import MASK

_DECOMMISSION_S = 50.0
"""Seconds to wait for the executor's end: less than the pod's grace period."""
_CHECK_INTERVAL_S = 0.2


@click.command(hidden=True)
def executor() -> None:
    """Run a Spark executor, configured by the environment that Spark's Kubernetes backend sets."""
    from wallaroo.engine.spark.kubernetes import executor_command

    command = executor_command(os.environ)
    os.umask(MASK)  # Java and the Python workers inherit it
    os.execv(command[0], command)  # so that Java receives the signals


def decommission() -> None:
    """Let the executor finish its tasks and wait for its end; called before the pod terminates."""
    running = running_executors()
    for process in running:
        os.kill(int(process.name), signal.SIGPWR)
    deadline = time.monotonic() + _DECOMMISSION_S
    while any(map(_is_executor, running)) and time.monotonic() < deadline:
        time.sleep(_CHECK_INTERVAL_S)


def running_executors() -> list[Path]:
    """The processes of executors in this container, by their directories of `/proc`."""
    return list(filter(_is_executor, Path("/proc").glob("[0-9]*")))


def _is_executor(process: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return command[0].endswith(b"java") and any(
        part.endswith(b"KubernetesExecutorBackend") for part in command
    )
