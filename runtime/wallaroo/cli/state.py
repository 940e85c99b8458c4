"""`wallaroo state`: what the state entities of an application are."""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wallaroo.cli.options import application_to_look_at
from wallaroo.cli.state_directory import read_fixed
from wallaroo.engine.entities import EntityCache
from wallaroo.engine.job import codecs_of
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
    found = False
    for name, of, entity in _entities(app, app_args, state_dir):
        if key in {str(of), repr(of)}:
            found = True
            click.echo(json.dumps(_told(name, of, entity), indent=2, ensure_ascii=False))
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
    for name, key, entity in _entities(app, app_args, state_dir):
        if form == "json":
            click.echo(json.dumps(_told(name, key, entity), ensure_ascii=False))
        else:
            sys.stdout.buffer.write(pickle.dumps(((name, key), entity), protocol=5))


def _entities(
    app: str, app_args: tuple[str, ...], state_dir: Path
) -> Iterator[tuple[str, Any, Any]]:
    """State partition, key and entity of each entity."""
    fixed = read_fixed(state_dir)
    application = application_to_look_at(app, app_args)
    if fixed.application != application.name:
        msg = f"{state_dir} belongs to {fixed.application!r}, and this is {application.name!r}"
        raise UsageError(msg)
    from wallaroo.engine.spark.reading import read_state
    from wallaroo.engine.spark.session import SparkSettings, start_session

    program = Program(application, fixed.buckets)
    names = [partition.name for partition in program.partitions]
    cache = EntityCache(names, codecs_of(program))
    checkpoint = state_dir.resolve() / "checkpoint"
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
        settings = SparkSettings("local[1]", fixed.partitions, Path(scratch))
        spark = start_session(application.name, settings, [], lambda _line: None)
        try:
            levels = program.levels.count
            for name, entities in read_state(spark.session, checkpoint, levels, cache):
                for key, entity in entities.items():
                    yield name, key, entity
        finally:
            spark.stop()


def _told(name: str, key: Any, entity: Any) -> dict[str, Any]:
    return {"state": name, "key": _plain(key), "entity": _plain(entity)}


def _plain(value: Any) -> Any:
    """*value* as JSON has it; objects as their attributes, what is neither as its `repr`."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(of) for key, of in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(of) for of in value]
    slots = [s for base in type(value).__mro__ for s in vars(base).get("__slots__", ())]
    fields = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    fields |= getattr(value, "__dict__", {})
    return {name: _plain(of) for name, of in fields.items()} if fields else repr(value)
