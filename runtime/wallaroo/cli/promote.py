"""`wallaroo promote`: a running application continues with other code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from wallaroo.cli.options import SNAPSHOT, STATE_DIR_OF_APP
from wallaroo.cli.saved_state import (
    check_loaded,
    check_unused,
    entities,
    log_of_application,
    saved_state,
)
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.observability import logs
from wallaroo.run.promotion import Request
from wallaroo.run.promotion import promote as request
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.user_output import empty_stdin, reported_exits, reserved_stdout


@click.command()
@click.argument("app")
@STATE_DIR_OF_APP
@SNAPSHOT
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def promote(
    app: str, state_dir: Path | None, snapshot: Path | None, app_args: tuple[str, ...]
) -> None:
    """Let a running application continue with other code, APP, between two messages.

    First, the new code has to load each entity of the last checkpoint. Then the run finishes
    in-flight work, and processes the next messages with the new code, usually within a second. The
    state, the sockets of sources and sinks and the dashboard stay. If the new code cannot be
    loaded, does not fit the state or fails at once, the run continues with its previous code, and
    the exit code is 1.

    Without APP ARGS, the new code gets those that the run was started with; APP ARGS take the place
    of all of them, addresses included. Ctrl-C withdraws a request that the run has not taken yet.
    The next start of `wallaroo run` takes the code that it names: name the new code there, or
    replace the old code with it.

    \b
    Example:
      wallaroo promote new/orders.py --state-dir .wallaroo/orders
    """  # noqa: D301  (click reads \b)
    _check_name(app)
    with reserved_stdout(), empty_stdin(), reported_exits():
        application, log = log_of_application(app, app_args, state_dir)
        _check_entities(application, snapshot or log.parent)
    promote_to(app, log.parent, app_args)


def _check_entities(application: Application, state_dir: Path) -> None:
    """Load all entities in *state_dir*, as of the last checkpoint.

    Raises:
        UsageError: The checkpoint is elsewhere.
        RuntimeFailure: One cannot be loaded.
    """
    if not StateDirectory.has_state(state_dir):
        msg = f"{state_dir} has the log alone; name the place of the state with --snapshot"
        raise UsageError(msg)
    logs.configure("info")  # without what Java prints when it starts
    with saved_state(application, state_dir, state_dir, published=False) as saved:
        counts = Counter(name for name, _, _ in saved.entities())
    check_loaded(saved.unloaded, "cannot be loaded by the new code")
    check_unused(application, state_dir, saved.others, counts)
    if saved.commit is None:
        click.echo("there is no checkpoint yet, and so no entity to load", err=True)
    else:
        click.echo(f"the new code loads {entities(counts.total())}", err=True)


def _check_name(app: str) -> None:
    """Refuse a module.

    Raises:
        UsageError: *app* is one.
    """
    if ApplicationRef(app).directory is None:
        msg = f"{app} is a module, or is not there; name a directory or a .py file"
        raise UsageError(msg)


def promote_to(app: str, state_dir: Path, app_args: tuple[str, ...] = ()) -> None:
    """Let the run with the state in *state_dir* continue as *app*, and say so.

    Raises:
        UsageError: No run uses *state_dir*.
        RuntimeFailure: It continues as before.
    """
    _check_name(app)
    is_taken = False

    def waits() -> None:
        click.echo("waiting for the run, which is starting or tries other code", err=True)

    def taken() -> None:
        nonlocal is_taken
        is_taken = True
        click.echo("the run tries the new code", err=True)

    asked = Request(ApplicationRef(app).absolute().app, app_args)
    try:
        answer = request(state_dir.resolve(), asked, waits, taken)
    except KeyboardInterrupt:
        if is_taken:
            click.echo("the run may continue with the new code: its log says whether", err=True)
        raise
    if answer.problem is not None:
        msg = f"not promoted, and the run continues with its previous code: {answer.problem}"
        raise RuntimeFailure(msg)
    click.echo(f"promoted: the run continues with {app}; name that in the next start, too")
