"""`wallaroo probe`: checks the health of the process in the same container."""

from __future__ import annotations

import urllib.error
import urllib.request

import click

from wallaroo.cli.executor import running_executors
from wallaroo.errors import RuntimeFailure

PORT = 7980
"""Port of a container's health endpoints."""
_TIMEOUT_S = 5.0


@click.command(hidden=True)
@click.option("--port", default=PORT, show_default=True, help="Port of the health endpoints.")
def probe(port: int) -> None:
    """Query /healthz on this machine; an executor has no endpoint and is healthy while it runs."""
    if running_executors():
        return
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=_TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        msg = f"unhealthy: {error.read().decode().strip()}"
        raise RuntimeFailure(msg) from error
    except OSError as error:
        msg = f"no response on port {port}: {error}"
        raise RuntimeFailure(msg) from error
