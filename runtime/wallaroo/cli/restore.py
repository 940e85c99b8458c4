"""`wallaroo restore`: brings a snapshot to where an application starts."""

from __future__ import annotations

from pathlib import Path

import click

from wallaroo.cli.option_types import PLACE
from wallaroo.cli.options import LOG_DIR, STATE_OF_APP
from wallaroo.cli.saved_state import log_dir_of, state_dir_of
from wallaroo.cli.snapshot import described
from wallaroo.observability import logs
from wallaroo.run.state.snapshots.restoration import restore as restore_snapshot
from wallaroo.system.private_files import private_files


@click.command()
@click.argument("source", metavar="SNAPSHOT", type=PLACE)
@click.argument("app", required=False)
@STATE_OF_APP
@LOG_DIR
@private_files()
def restore(source: Path, app: str | None, state_dir: Path | None, log_dir: Path | None) -> None:
    """Copy SNAPSHOT to the state directory of APP, with which it then starts.

    SNAPSHOT is from `wallaroo snapshot`: a directory, or s3a://BUCKET/FOLDER. There must be nothing
    in the state directory, nor in that of the log. The original must not run, or the copy be
    started with other sinks: both would send outputs, under the same numbers. The snapshot stays.
    If the command is killed, no start takes what it has left: call it again.

    \b
    Example:
      wallaroo restore s3a://backups/word-count/monday apps/word_count
      wallaroo restore backups/monday --state-dir s3a://states/shop --log-dir /var/lib/shop
    """  # noqa: D301  (click reads \b)
    logs.configure("info")
    state = state_dir_of(app, state_dir)
    restored = restore_snapshot(source, state, log_dir_of(app, state, log_dir))
    click.echo(f"{state}: {described(restored)}")
