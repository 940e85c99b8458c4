"""A gateway in a process of its own, which tests kill."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from wallaroo.gateway.internal_api.client import GatewayClient


@contextlib.contextmanager
def child_gateway(
    directory: Path, *arguments: str, options: Sequence[str] = ()
) -> Iterator[tuple[GatewayClient, subprocess.Popen[bytes]]]:
    """Run `app.py` in *directory*, whose path is short, with *arguments*; it is killed at the end.

    Its log is the file `log` there.

    Yields:
        Its client, once its addresses are bound, and the process.
    """
    location = f"unix:{directory}/gateway.sock"
    command = [
        *(sys.executable, "-m", "wallaroo", "gateway", str(directory / "app.py"), "--child"),
        *("--state-dir", str(directory / "state"), "--listen", location, *options),
        *("--", *arguments),
    ]
    with (
        (directory / "log").open("ab") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        assert process.stdout is not None
        assert b"sources" in process.stdout.readline()
        try:
            yield GatewayClient(location), process
        finally:
            process.kill()
