"""`wallaroo snapshot`: copies a state directory, also while it is in use."""

from __future__ import annotations

from pathlib import Path

import click

from wallaroo.cli.option_types import PlaceType
from wallaroo.cli.options import LOG_DIR, STATE_OF_APP
from wallaroo.cli.saved_state import log_dir_of, state_dir_of
from wallaroo.observability import logs
from wallaroo.run.state.snapshots.contents import Snapshot
from wallaroo.run.state.snapshots.retention import remove_oldest
from wallaroo.run.state.snapshots.snapshot import take_snapshot
from wallaroo.system.printable import counted
from wallaroo.system.private_files import private_files


@click.command()
@click.argument("app", required=False)
@STATE_OF_APP
@click.option(
    "--to",
    "target",
    required=True,
    type=PlaceType(stores=True),
    metavar="PLACE",
    help="The copy: a directory that does not exist yet, or s3a://BUCKET/FOLDER.",
)
@LOG_DIR
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Then remove the oldest snapshots of the application beside this one, except so many "
    "in all.",
)
@private_files()
def snapshot(
    app: str | None, state_dir: Path | None, target: Path, log_dir: Path | None, keep: int | None
) -> None:
    """Copy the state directory of APP, also while the application runs.

    The copy is what a kill at one moment would have left, so that `wallaroo run` can start with it:
    its log, dead letters and checkpoint belong together. It is checked, and gets its name when it
    is complete and on disk. The application is not held up. `wallaroo restore` brings a copy on an
    object store, or one of state that was there, to where the application starts.

    The copy has the identity of the original. Start it instead of the original, or with other
    sinks: both would send outputs, under the same numbers.

    \b
    Example:
      wallaroo snapshot apps/word_count --to /var/backups/word-count
      wallaroo snapshot --state-dir .wallaroo/market-spread --to backups/monday --keep 7
      wallaroo snapshot apps/word_count --to s3a://backups/word-count/monday
    """  # noqa: D301  (click reads \b)
    logs.configure("info")
    used = state_dir_of(app, state_dir)
    made = take_snapshot(used, target, log_dir_of(app, used, log_dir))
    click.echo(f"{target}: {described(made)}")
    for removed in remove_oldest(target, keep) if keep else ():
        click.echo(f"{removed}: removed")


def described(made: Snapshot) -> str:
    """What a snapshot has, in words."""
    epoch = "no epoch" if made.epoch is None else f"epoch {made.epoch:,}"
    return (
        f"position {made.position:,}, {epoch}, {counted(made.waiting, 'message')} waiting, "
        f"{counted(made.undelivered, 'output')} undelivered, {made.bytes / 1024**2:,.1f} MiB; "
        f"the state of its checkpoint ends before offset {made.covered:,}"
    )
