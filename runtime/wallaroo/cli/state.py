"""`wallaroo state`: shows, exports and imports the entities of an application."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import structlog

from wallaroo.cli.options import (
    PARTITIONS,
    STATE_DIR_OF_APP,
    STATE_OF_APP,
    application_without_addresses,
)
from wallaroo.cli.saved_state import (
    check_loaded,
    of_key,
    saved_of_application,
    warn_of_unused,
)
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.offline_state import StoppedState
from wallaroo.engine.realtime.state_import import write_rows
from wallaroo.engine.stored import SavedState
from wallaroo.errors import UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.observability import logs
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.clocks import begin_clocks, has_clocks, shown_clocks
from wallaroo.run.state.directory import Fixed, StateDirectory, read_fixed
from wallaroo.run.state.location import default_state_dir, directory_of_log
from wallaroo.run.state.transfer import Form, Packer, read_entities, written_entity
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.printable import printable_json
from wallaroo.system.private_files import private_files

log = structlog.get_logger("wallaroo")

_format = click.option(
    "--format",
    "form",
    type=click.Choice(["json", "pickle"]),
    default="json",
    show_default=True,
    help="json: one object per line, with the attributes of an entity. pickle: pairs of "
    "(state, key) and entity, pickled one after the other.",
)
_arguments = click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")


@click.group()
def state() -> None:
    """Show, export and import the state of an application, as of its last chunk.

    While the application runs, its state can be shown and exported.

    \b
    Example:
      wallaroo state show apps/word_count hello
      wallaroo state export apps/word_count > state.jsonl
      wallaroo state import apps/word_count state.jsonl --state-dir new
    """  # noqa: D301  (click reads \b)
    logs.configure("info")  # without what Java prints when it starts


@state.command()
@click.argument("app")
@click.argument("key")
@STATE_OF_APP
@_arguments
def show(app: str, key: str, state_dir: Path | None, app_args: tuple[str, ...]) -> None:
    """Show the entities of KEY in all states."""
    with reserved_stdout() as out:
        with saved_of_application(app, app_args, state_dir) as (saved, _, used):
            entities = list(of_key(saved, key))
        for entity in entities:
            text = json.dumps(entity, indent=2, ensure_ascii=False)
            click.echo(printable_json(text), file=out)
    if not entities:
        msg = f"no state in {used} has the key {key!r}"
        raise UsageError(msg)


@state.command()
@click.argument("app")
@STATE_OF_APP
@_format
@_arguments
def export(app: str, state_dir: Path | None, form: Form, app_args: tuple[str, ...]) -> None:
    """Write all entities to standard output."""
    with (
        reserved_stdout() as out,
        saved_of_application(app, app_args, state_dir) as (saved, application, used),
    ):
        program = Program(application, 1)
        clocks = shown_clocks(
            directory_of_log(used, ApplicationRef(app), application.name),
            used / "checkpoint",
            program,
        )
        for name, key, entity in saved.entities():
            time, version = saved.time_of(name, key), application.partitions[name].version
            clock = clocks.get(program.partition_numbers[name])
            out.buffer.write(written_entity(name, key, entity, form, time, version, clock))
        warn_of_unused(saved, "entities are not exported")
        out.flush()
        check_loaded(saved.unloaded, "are not exported")


@state.command(name="import")
@click.argument("app")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@STATE_DIR_OF_APP
@_format
@PARTITIONS.but(show_default="1, or those of the directory")
@click.option("--replace", is_flag=True, help="Replace existing entities of the same keys.")
@_arguments
@private_files()
def import_(
    app: str,
    file: Path,
    state_dir: Path | None,
    form: Form,
    partitions: int | None,
    replace: bool,
    app_args: tuple[str, ...],
) -> None:
    """Import the entities of FILE (- for standard input), as `wallaroo state export` wrote them.

    The application must have been stopped cleanly; a state directory that does not exist is
    created. Either all entities are imported or none:
    nothing is written until every entity has been validated (its state, key, class and fields). To
    finish an interrupted import, run the same command again. Entities of other keys are left
    unchanged. Import only files that you trust as much as the application itself, because
    importing creates the objects that the file describes.

    \b
    Example:
      wallaroo state import apps/word_count state.jsonl --state-dir new --partitions 4
    """  # noqa: D301  (click reads \b)
    with reserved_stdout(), tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
        application = application_without_addresses(app, app_args)
        state_dir = state_dir or default_state_dir(ApplicationRef(app), application.name)
        shown_name = str(file)
        if shown_name == "-":
            shown_name = "standard input"
            file = Path(scratch, "stdin")
            with file.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            with file.open("rb") as opened:
                name = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            msg = f"{file} cannot be read: {error.strerror}"
            raise UsageError(msg) from error
        if StateDirectory.has_state(state_dir):
            fixed = read_fixed(state_dir)
        else:
            fixed = Fixed.new(application.name, partitions or 1)
        program = Program(application, fixed.buckets)
        clocks, begins_ns = shown_clocks(state_dir, state_dir / "checkpoint", program), None
        if program.by_event and not has_clocks(state_dir):
            begins_ns = time.time_ns()
            clocks = dict.fromkeys(program.by_event, begins_ns)
        packer = Packer(program, clocks)
        rows = Path(scratch, "rows")
        versions = {p.name: p.versions for p in program.partitions if p.versions is not None}
        entities = read_entities(file, form, shown_name, versions)
        write_rows(packer.pack(entities), rows)
        state = StateDirectory(state_dir, application.name, fixed.partitions, importing=name)
        try:
            state.check_partitions(partitions or state.fixed.partitions)
            if begins_ns is not None:
                begin_clocks(state.directory, application, begins_ns)
            _import(state, program, packer.keys, rows, name, replace)
        finally:
            state.close()
        log.info("imported", entities=len(packer.keys), state_dir=str(state.path))


def _import(
    state: StateDirectory,
    program: Program,
    keys: set[tuple[str, Any]],
    rows: Path,
    name: str,
    replace: bool,
) -> None:
    with StoppedState(state.layout) as stopped:
        if state.is_new or not stopped.has_imported(name):
            if not replace:
                _check_that_none_exists(stopped.saved(program), state.path, keys)
            check_state_classes(state.path, program.application)
            state.begin_import(name)
            stopped.import_rows(rows, name)
    state.end_import()


def _check_that_none_exists(saved: SavedState, path: Path, keys: set[tuple[str, Any]]) -> None:
    existing = [(name, key) for name, key, _ in saved.entities() if (name, key) in keys]
    existing += [(one.state, one.key) for one in saved.unloaded if (one.state, one.key) in keys]
    for name, key in existing[:1]:
        msg = (
            f"state {name!r} in {path} already has an entity with key {key!r}: "
            "use --replace to replace such entities"
        )
        raise UsageError(msg)
