"""The entities in a state directory, read and checked against the application's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from wallaroo.cli.options import application_without_addresses
from wallaroo.cli.streams import TransferProgress
from wallaroo.dataflow.json_codec import entity_json
from wallaroo.dataflow.look_ups import is_written
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.offline_state import StoppedState
from wallaroo.engine.stored import Committed, SavedState
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.entries import MESSAGES, messages_in
from wallaroo.gateway.log.records import MOST_NUMBER, Record
from wallaroo.gateway.reading import check_application
from wallaroo.history.records import records
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.observability import logs
from wallaroo.run.state.classes import hints_of_fields, known_states, state_class_problem
from wallaroo.run.state.directory import (
    Fixed,
    StateDirectory,
    check_place,
    read_fixed,
    readable_checkpoint,
)
from wallaroo.run.state.location import default_state_dir, directory_of_log
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.object_store import is_stored
from wallaroo.wire.records import TICK_SOURCE

log = structlog.get_logger("wallaroo")


def state_dir_of(app: str | None, state_dir: Path | None) -> Path:
    """*state_dir*, or where the application *app* has its state by default.

    Raises:
        UsageError: Neither is given, or the application does not exist.
        ApplicationError: It cannot be loaded.
    """
    return state_dir or _default_of(app, "its state directory with --state-dir")


def log_dir_of(app: str | None, state: Path, log_dir: Path | None) -> Path:
    """*log_dir*, or the directory with the log of the *state* of the application *app*.

    Raises:
        UsageError: The state is on an object store, and neither is given.
        ApplicationError: The application cannot be loaded.
    """
    if log_dir is not None or not is_stored(state):
        return log_dir or state
    return _default_of(app, "the directory with its log with --log-dir")


def _default_of(app: str | None, otherwise: str) -> Path:
    if app is None:
        msg = f"name the application, or {otherwise}"
        raise UsageError(msg)
    with reserved_stdout():
        application = application_without_addresses(app, ())
    return default_state_dir(ApplicationRef(app), application.name)


@contextmanager
def saved_state(
    application: Application, state_dir: Path, directory: Path, *, published: bool = True
) -> Iterator[SavedState]:
    """The state in *state_dir*, with the log in *directory*.

    Args:
        application: The application.
        state_dir: The state.
        directory: The directory with its log.
        published: Whether to add what was published after the last checkpoint.

    Raises:
        UsageError: It belongs to another application, or is a snapshot on an object store.
    """
    check_place(state_dir)
    fixed = _fixed_of(application, state_dir)
    checkpoint = readable_checkpoint(state_dir)
    with StoppedState(fixed.layout(checkpoint, directory)) as stopped:
        yield stopped.saved(Program(application, fixed.buckets), published=published)


def committed_state(application: Application, state_dir: Path | None) -> Committed | None:
    """The state in *state_dir* as of its last checkpoint; None if it has none.

    Args:
        application: The application, or other code for it.
        state_dir: A state directory, which may be in use, or a snapshot; None for nothing.

    Raises:
        UsageError: It belongs to another application.
    """
    if state_dir is None:
        return None
    logs.configure("info")  # without what Java prints when it starts
    fixed = _fixed_of(application, state_dir)
    checkpoint = readable_checkpoint(state_dir)
    with StoppedState(fixed.layout(checkpoint, state_dir)) as stopped:
        found = stopped.committed()
        return found and found._replace(records=list(found.records))


@contextmanager
def saved_of_application(
    app: str, app_args: tuple[str, ...], state_dir: Path | None
) -> Iterator[tuple[SavedState, Application, Path]]:
    """The state in *state_dir*, or where it is by default, the application, and where that is."""
    if state_dir is not None:
        read_fixed(state_dir)  # before the application is loaded
    application = application_without_addresses(app, app_args)
    state_dir = state_dir or default_state_dir(ApplicationRef(app), application.name)
    directory = directory_of_log(state_dir, ApplicationRef(app), application.name)
    with saved_state(application, state_dir, directory) as saved:
        yield saved, application, state_dir


def log_of_application(
    app: str, app_args: tuple[str, ...], state_dir: Path | None, other: str | None = None
) -> tuple[Application, Path]:
    """The application, and the directory of its log, in *state_dir* or where it is by default.

    Args:
        app: The application.
        app_args: Its arguments.
        state_dir: Its state directory.
        other: Other code for it, which is loaded in its place.

    Raises:
        UsageError: There is none, or it belongs to another application.
    """
    application = application_without_addresses(other or app, app_args)
    state_dir = state_dir or default_state_dir(ApplicationRef(app), application.name)
    directory = state_dir / LOG
    if not directory.exists():
        msg = f"{state_dir} has no {LOG}: no gateway has run with this state directory"
        raise UsageError(msg)
    if StateDirectory.has_state(state_dir):
        _fixed_of(application, state_dir)
    return application, directory


def read_log(
    directory: Path,
    end: int = MOST_NUMBER,
    *,
    archive: Path | None = None,
    beginning: Committed | None = None,
    quiet: bool = False,
) -> Generator[Record, None, None]:
    """The records of a log, with progress on the terminal unless *quiet*; see `records`.

    Args:
        directory: The directory of the log.
        end: Number of the last record.
        archive: Where older ones have been archived; None for nowhere.
        beginning: State before which nothing is needed; None if all is needed.
        quiet: Whether to show nothing.
    """
    progress = TransferProgress("read", quiet=quiet)
    since = 0 if beginning is None else beginning.offset
    try:
        for record in records(directory, end, archive, since):
            if record.kind == MESSAGES:
                entry = messages_in(record.payload)
                count = 0 if entry.source == TICK_SOURCE else entry.messages
                progress.add(count, entry.size)
            yield record
    finally:
        progress.clear()


def of_key(saved: SavedState, text: str) -> Iterator[dict[str, Any]]:
    """The entities of all states whose key is written as *text*, each as from `entity_json`.

    Raises:
        RuntimeFailure: They cannot be read, or one of them cannot be loaded.
    """
    for name, key, entity in saved.entities():
        if is_written(key, text):
            yield entity_json(name, key, entity, saved.time_of(name, key))
    for one in saved.unloaded:
        if is_written(one.key, text):
            raise RuntimeFailure(str(one))


def warn_of_unused(saved: SavedState, event: str) -> None:
    """Log *event* for each state that the application does not have, with its entities."""
    for name, left in sorted((+saved.others).items()):
        reason = "the application has no state of that name"
        log.warning(event, state=name, entities=left, reason=reason)


def check_loaded(problems: Sequence[object], effect: str) -> None:
    """Raise the first of *problems*, one for each entity that could not be loaded.

    Args:
        problems: What is wrong with each of them.
        effect: What that means, after "entities".

    Raises:
        RuntimeFailure: There are problems.
    """
    if problems:
        count = f"; {len(problems):,} entities {effect}" if len(problems) > 1 else ""
        msg = f"{problems[0]}{count}"
        raise RuntimeFailure(msg)


def check_unused(
    application: Application, state_dir: Path, others: Counter[str], counts: Counter[str]
) -> Counter[str]:
    """Check that no state of *application* may be one that had another name.

    Args:
        application: The application.
        state_dir: Its state.
        others: Numbers of entities of states that it does not have.
        counts: Numbers of the others.

    Returns:
        Numbers of entities that it leaves unused.

    Raises:
        UsageError: A state is new, and another one is not used any more.
    """
    unused = +others
    new = application.partitions.keys() - counts.keys() - known_states(state_dir)
    for name in sorted(unused) if new else ():
        empty = " and ".join(map(repr, sorted(new)))
        msg = (
            f"state {name!r} in {state_dir} has {entities(unused[name])}, and the application has "
            f"no state of that name: the next start would leave them unused and begin {empty} "
            f"empty; if only the name has changed, call it {name!r} again"
        )
        raise UsageError(msg)
    return unused


def next_start_lines(application: Application, state_dir: Path, directory: Path) -> Iterator[str]:
    """Load all entities in *state_dir*, and say what the next start does with them.

    Without the log, they are those of the last checkpoint.

    Args:
        application: The application.
        state_dir: Its state.
        directory: The directory with its log.

    Raises:
        UsageError: A state class does not fit, or a state has another name.
        RuntimeFailure: Entities cannot be loaded, or a source or sink is gone that something waits
            for.
    """
    log = directory.resolve() / LOG
    unread = check_application(log, application)
    if (problem := state_class_problem(state_dir, application)) is not None:
        raise UsageError(problem)
    has_log = log.exists()
    with saved_state(application, state_dir, directory, published=has_log) as saved:
        counts = Counter(name for name, _, _ in saved.entities())
    check_loaded(saved.unloaded, "cannot be loaded")
    unused = check_unused(application, state_dir, saved.others, counts)
    since = "" if has_log else f", as of its last checkpoint, because {log} is not here"
    yield f"the next start with {state_dir}{since}:"
    migrated = saved.migrated()
    for name in application.partitions:
        more = f", {migrated[name]:,} of them migrated" if migrated.get(name) else ""
        loads = f"loads {entities(counts[name])}" if counts[name] else "begins empty"
        yield f"  state {name!r}: {loads}{more}"
    for name, count in sorted(unused.items()):
        yield f"  state {name!r}: leaves {entities(count)} unused, as no step has this state"
    for name in unread:
        unused_position = "leaves its position unused, as no source has this name"
        yield f"  source {name!r}: {unused_position}; one that is new begins at its start"
    yield from (f"  hint: {hint}" for hint in hints_of_fields(state_dir, application))


def _fixed_of(application: Application, state_dir: Path) -> Fixed:
    fixed = read_fixed(state_dir)
    if fixed.application != application.name:
        msg = f"{state_dir} belongs to {fixed.application!r}, not to {application.name!r}"
        raise UsageError(msg)
    return fixed


def entities(count: int) -> str:
    """*count* entities, in words."""
    return f"{count:,} {'entity' if count == 1 else 'entities'}"
