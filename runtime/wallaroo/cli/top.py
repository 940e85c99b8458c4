"""`wallaroo top`: shows a running application in the terminal, using its dashboard."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from rich.console import Console

from wallaroo.cli.option_types import FILE
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.run.live_view import LiveView, can_show, line
from wallaroo.system.credentials import read_token
from wallaroo.system.printable import printable

_RESPONSE_S = 10.0
"""Seconds that the dashboard may take to respond."""
_REFUSAL_BYTES = 1000
"""Bytes that are shown of what it answers if it refuses something."""
_INTERVAL_S = 1.0
"""Seconds between two lines."""


DASHBOARD_TOKEN_FILE = click.option(
    "--dashboard-token-file",
    "token_file",
    type=FILE,
    help="File with the dashboard's token (that of --ui-token-file), if the dashboard requires it.",
)
"""How to show the dashboard's token."""


@click.command()
@click.argument("url", default="http://127.0.0.1:7990/")
@click.option("--once", is_flag=True, help="Print the current metrics on one line, and exit.")
@DASHBOARD_TOKEN_FILE
def top(url: str, once: bool, token_file: Path | None) -> None:
    """Show a running application: rates, latency, backlog, workers, errors.

    URL is the address of its dashboard, which the ready event of `wallaroo run` shows. If standard
    output is not a terminal, it prints one line per second.

    \b
    Example:
      wallaroo top http://127.0.0.1:7990/
    """  # noqa: D301  (click reads \b)
    dashboard = DashboardClient(url, None if token_file is None else read_token(token_file))
    name = dashboard.get("application")["name"]
    console = Console()
    if once:
        click.echo(printable(f"{name}  {line(dashboard.get('snapshot'))}"))
        return
    try:
        if not can_show(console):
            while True:
                click.echo(printable(f"{name}  {line(dashboard.get('snapshot'))}"))
                time.sleep(_INTERVAL_S)
        with LiveView(name, dashboard.next_snapshot, console):
            while dashboard.failure is None:
                time.sleep(_INTERVAL_S / 4)
    except KeyboardInterrupt:
        return
    raise RuntimeFailure(dashboard.failure)


class DashboardClient:
    """Queries a dashboard.

    Args:
        url: Address of its page.
        token: Its token, if it requires one.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        try:
            urlsplit(url)
        except ValueError as error:
            msg = f"{url!r} is not the address of a dashboard: {error}"
            raise UsageError(msg) from error
        self._url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.failure: str | None = None
        """Why `next_snapshot` returned None."""

    def get(self, path: str) -> dict[str, Any]:
        """The JSON that the dashboard serves at *path*.

        Raises:
            RuntimeFailure: The dashboard does not respond.
            UsageError: There is no dashboard at the address.
        """
        return self._ask(urllib.request.Request(f"{self._url}/{path}", headers=self._headers))

    def post(self, action: str) -> dict[str, Any]:
        """The JSON that the dashboard answers to *action*.

        Raises:
            RuntimeFailure: The dashboard does not respond, or refuses it.
            UsageError: There is no dashboard at the address.
        """
        url = f"{self._url}/{action}"
        try:
            return self._ask(urllib.request.Request(url, b"", self._headers, method="POST"))
        except RuntimeFailure as failure:
            if not isinstance(refused := failure.__cause__, urllib.error.HTTPError):
                raise
            with refused:
                text = refused.read(_REFUSAL_BYTES).decode("utf-8", "replace")
            msg = f"the dashboard at {self._url}/ refuses to {action}: {text}"
            raise RuntimeFailure(msg) from refused

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(request, timeout=_RESPONSE_S) as response:
                content: dict[str, Any] = json.load(response)
                return content
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            msg = (
                f"no dashboard responds at {self._url}/: {reason}; the ready event of the "
                "application contains its address"
            )
            mistaken = isinstance(error, (ValueError, InvalidURL))
            raise (UsageError if mistaken else RuntimeFailure)(msg) from error

    def next_snapshot(self, _after: float, timeout_s: float) -> dict[str, Any] | None:
        """The snapshot after *timeout_s*; None, with `failure` set, if there is no response."""
        time.sleep(timeout_s)
        try:
            return self.get("snapshot")
        except (RuntimeFailure, UsageError) as error:
            self.failure = str(error)
            return None
