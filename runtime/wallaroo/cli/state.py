"""`wallaroo state`: what the state entities of an application are."""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from wallaroo.cli.entities import SavedState, told
from wallaroo.cli.options import application_to_look_at
from wallaroo.cli.state_directory import read_fixed
from wallaroo.engine.program import Program
from wallaroo.errors import UsageError

_directory = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="State directory of the application, which may be running.",
)
_arguments = click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")


@click.group()
def state() -> None:
    """Look at the state of an application, as of its last batch, running or stopped.

    \b
    Example:
      wallaroo state show apps/word_count hello --state-dir .wallaroo/word-count
      wallaroo state export apps/word_count --state-dir .wallaroo/word-count > state.jsonl
    """  # noqa: D301  (click reads \b)


@state.command()
@click.argument("app")
@click.argument("key")
@_directory
@_arguments
def show(app: str, key: str, state_dir: Path, app_args: tuple[str, ...]) -> None:
    """Show the entities of KEY, in every state partition."""
    with _saved(app, app_args, state_dir) as saved:
        found = list(saved.of_key(key))
    for entity in found:
        click.echo(json.dumps(entity, indent=2, ensure_ascii=False))
    if not found:
        msg = f"no state in {state_dir} has the key {key!r}"
        raise UsageError(msg)


@state.command()
@click.argument("app")
@_directory
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "pickle"]),
    default="json",
    show_default=True,
    help="json: an object a line, of what the entities' attributes are. pickle: pairs of "
    "(state, key) and entity, pickled one after the other.",
)
@_arguments
def export(app: str, state_dir: Path, form: str, app_args: tuple[str, ...]) -> None:
    """Write all entities to standard output."""
    with _saved(app, app_args, state_dir) as saved:
        for name, key, entity in saved.entities():
            if form == "json":
                click.echo(json.dumps(told(name, key, entity), ensure_ascii=False))
            else:
                sys.stdout.buffer.write(pickle.dumps(((name, key), entity), protocol=5))


@contextlib.contextmanager
def _saved(app: str, app_args: tuple[str, ...], state_dir: Path) -> Iterator[SavedState]:
    """The state in *state_dir*, with a Spark to read it."""
    fixed = read_fixed(state_dir)
    application = application_to_look_at(app, app_args)
    if fixed.application != application.name:
        msg = f"{state_dir} belongs to {fixed.application!r}, and this is {application.name!r}"
        raise UsageError(msg)
    from wallaroo.engine.spark.session import SparkSettings, start_session

    program = Program(application, fixed.buckets)
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
        settings = SparkSettings("local[1]", fixed.partitions, Path(scratch))
        spark = start_session(application.name, settings, [], lambda _line: None)
        try:
            yield SavedState(spark.session, state_dir.resolve() / "checkpoint", program)
        finally:
            spark.stop()
