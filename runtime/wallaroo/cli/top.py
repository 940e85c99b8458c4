"""`wallaroo top`: shows a running application in the terminal, using its dashboard."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import click
from rich.console import Console

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.run.live_view import LiveView, can_show, line
from wallaroo.system.printable import printable

_ANSWER_S = 10.0
_EVERY_S = 1.0


@click.command()
@click.argument("url", default="http://127.0.0.1:7990/")
@click.option("--once", is_flag=True, help="Print the current metrics on one line, and exit.")
def top(url: str, once: bool) -> None:
    """Show a running application: rates, latency, backlog, workers, errors.

    URL is the address of its dashboard, which the ready event of `wallaroo run` shows. If standard
    output is not a terminal, it prints one line per second.

    \b
    Example:
      wallaroo top http://127.0.0.1:7990/
    """  # noqa: D301  (click reads \b)
    asked = Asked(url)
    name = asked.get("application")["name"]
    console = Console()
    if once:
        click.echo(printable(f"{name}  {line(asked.get('snapshot'))}"))
        return
    try:
        if not can_show(console):
            while True:
                click.echo(printable(f"{name}  {line(asked.get('snapshot'))}"))
                time.sleep(_EVERY_S)
        with LiveView(name, asked.look, console):
            while asked.failure is None:
                time.sleep(_EVERY_S / 4)
    except KeyboardInterrupt:
        return
    raise RuntimeFailure(asked.failure)


class Asked:
    """A dashboard that is asked.

    Args:
        url: Where its page is.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        self._url = url.rstrip("/")
        self.failure: str | None = None
        """Why `look` did not get an answer."""

    def get(self, what: str) -> dict[str, Any]:
        """What the dashboard tells at the path *what*.

        Raises:
            RuntimeFailure: Nobody answers.
            UsageError: It is no dashboard.
        """
        try:
            with urllib.request.urlopen(f"{self._url}/{what}", timeout=_ANSWER_S) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            msg = (
                f"no application answers at {self._url}/: {reason}; its ready event tells where "
                "its dashboard is"
            )
            raise (UsageError if isinstance(error, ValueError) else RuntimeFailure)(msg) from error

    def look(self, _after: float, timeout_s: float) -> dict[str, Any] | None:
        """What there is after *timeout_s*; None, and `failure`, if nobody answers."""
        time.sleep(timeout_s)
        try:
            return self.get("snapshot")
        except (RuntimeFailure, UsageError) as error:
            self.failure = str(error)
            return None
