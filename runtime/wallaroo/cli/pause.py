"""`wallaroo pause` and `wallaroo resume`: a running application, by its dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wallaroo.cli.top import DASHBOARD_TOKEN_FILE, DashboardClient
from wallaroo.errors import UsageError
from wallaroo.system.credentials import read_token


@click.command()
@click.argument("url", default="http://127.0.0.1:7990/")
@DASHBOARD_TOKEN_FILE
def pause(url: str, token_file: Path | None) -> None:
    """Pause a running application: it processes no messages until it is resumed.

    URL is the address of its dashboard, which the ready event of `wallaroo run` shows. What is
    under way ends. Sources accept messages until the journal is full, and outputs that are
    published are delivered. The pause ends when the application is resumed or started again.

    \b
    Example:
      wallaroo pause --dashboard-token-file token
    """  # noqa: D301  (click reads \b)
    changed = _ask(url, token_file, "pause")
    click.echo("paused" if changed else "it was paused already")


@click.command()
@click.argument("url", default="http://127.0.0.1:7990/")
@DASHBOARD_TOKEN_FILE
def resume(url: str, token_file: Path | None) -> None:
    """Resume an application that was paused.

    URL is the address of its dashboard, which the ready event of `wallaroo run` shows.

    \b
    Example:
      wallaroo resume --dashboard-token-file token
    """  # noqa: D301  (click reads \b)
    changed = _ask(url, token_file, "resume")
    click.echo("resumed" if changed else "it was not paused")


def _ask(url: str, token_file: Path | None, action: str) -> bool:
    if token_file is None:
        msg = (
            "--dashboard-token-file is missing: name the file that `wallaroo run` was given as "
            f"--ui-token-file, which is required to {action} it"
        )
        raise UsageError(msg)
    answer: dict[str, Any] = DashboardClient(url, read_token(token_file)).post(action)
    return bool(answer["changed"])
