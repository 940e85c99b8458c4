"""`wallaroo snapshot`: copies a state directory, also while it is in use."""

from __future__ import annotations

from pathlib import Path

import click

from wallaroo.cli.option_types import PlaceType
from wallaroo.cli.options import STATE_DIR_OF_APP
from wallaroo.cli.saved_state import state_dir_of
from wallaroo.observability import logs
from wallaroo.run.state.snapshot import remove_oldest, take_snapshot
from wallaroo.system.printable import counted
from wallaroo.system.private_files import private_files


@click.command()
@click.argument("app", required=False)
@STATE_DIR_OF_APP
@click.option(
    "--to",
    "target",
    required=True,
    type=PlaceType(),
    metavar="DIRECTORY",
    help="The copy: a directory that does not exist yet.",
)
@click.option(
    "--log-dir",
    "journal",
    type=PlaceType(exists=True, file_okay=False),
    help="The gateway's directory, with the log and the dead letters, where it is not the state "
    "directory, as on a cluster.",
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Then remove the oldest snapshots of the application beside this one, except so many "
    "in all.",
)
@private_files()
def snapshot(
    app: str | None, state_dir: Path | None, target: Path, journal: Path | None, keep: int | None
) -> None:
    """Copy the state directory of APP, also while the application runs.

    The copy is what a kill at one moment would have left, so that `wallaroo run` can start with it:
    its log, dead letters and checkpoint belong together. It is checked, and gets its name when it
    is complete and on disk. The application is not held up.

    The copy has the identity of the original. Start it instead of the original, or with other
    sinks: both would send outputs, under the same numbers.

    \b
    Example:
      wallaroo snapshot apps/word_count --to /var/backups/word-count
      wallaroo snapshot --state-dir .wallaroo/market-spread --to backups/monday --keep 7
    """  # noqa: D301  (click reads \b)
    logs.configure("info")
    used = state_dir_of(app, state_dir)
    made = take_snapshot(used, target, journal)
    epoch = "no epoch" if made.epoch is None else f"epoch {made.epoch:,}"
    click.echo(
        f"{target}: position {made.position:,}, {epoch}, "
        f"{counted(made.waiting, 'message')} waiting, "
        f"{counted(made.undelivered, 'output')} undelivered, {made.bytes / 1024**2:,.1f} MiB; "
        f"the state of its checkpoint ends before offset {made.covered:,}"
    )
    for removed in remove_oldest(target, keep) if keep else ():
        click.echo(f"{removed}: removed")
