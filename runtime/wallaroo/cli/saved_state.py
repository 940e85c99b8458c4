"""The entities in a state directory, read and checked against the application's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from wallaroo.api.places import Place
from wallaroo.cli.options import application_without_addresses
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.offline_state import StoppedState
from wallaroo.engine.stored import SavedState
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application, StatePartition
from wallaroo.run.state.classes import hints_of_fields, known_states, state_class_problem
from wallaroo.run.state.directory import read_fixed, readable_checkpoint
from wallaroo.run.state.location import default_state_dir
from wallaroo.run.user_output import reserved_stdout

_NOWHERE = Place("", 0)


def state_dir_of(app: str | None, state_dir: Path | None) -> Path:
    """*state_dir*, or where the application *app* has its state by default.

    Raises:
        UsageError: Neither is given, or the application does not exist.
        ApplicationError: It cannot be loaded.
    """
    if state_dir is not None:
        return state_dir
    if app is None:
        msg = "name the application, or its state directory with --state-dir"
        raise UsageError(msg)
    with reserved_stdout():
        application = application_without_addresses(app, ())
    return default_state_dir(ApplicationRef(app), application.name)


@contextmanager
def saved_state(application: Application, state_dir: Path) -> Iterator[SavedState]:
    """The state in *state_dir*.

    Raises:
        UsageError: It belongs to another application.
    """
    fixed = read_fixed(state_dir)
    if fixed.application != application.name:
        msg = f"{state_dir} belongs to {fixed.application!r}, not to {application.name!r}"
        raise UsageError(msg)
    checkpoint = readable_checkpoint(state_dir)
    with StoppedState(fixed.layout(checkpoint)) as stopped:
        yield stopped.saved(Program(application, fixed.buckets))


def next_start_lines(application: Application, state_dir: Path) -> Iterator[str]:
    """Load all entities in *state_dir*, and say what the next start does with them.

    Raises:
        UsageError: A state class does not fit, or a state has another name.
        RuntimeFailure: Entities cannot be loaded.
    """
    if (problem := state_class_problem(state_dir, application)) is not None:
        raise UsageError(problem)
    counts, saved = _counted(application, state_dir)
    if saved.unloaded:
        first, *more_of_them = map(str, saved.unloaded)
        more = f"; so it is with {len(more_of_them):,} more" if more_of_them else ""
        msg = f"{first}{more}"
        raise RuntimeFailure(msg)
    unused: dict[str, int] = {}
    if others := {name: StatePartition(name, object, None, _NOWHERE) for name in saved.others()}:
        every = replace(application, partitions={**application.partitions, **others})
        with_others, _ = _counted(every, state_dir)
        unused = {name: with_others[name] for name in others if with_others[name]}
    new = application.partitions.keys() - counts.keys() - known_states(state_dir)
    for name in sorted(unused) if new else ():
        empty = " and ".join(map(repr, sorted(new)))
        msg = (
            f"state {name!r} in {state_dir} has {_entities(unused[name])}, and the application has "
            f"no state of that name: the next start would leave them unused and begin {empty} "
            f"empty; if only the name has changed, call it {name!r} again"
        )
        raise UsageError(msg)
    yield f"the next start with {state_dir}:"
    migrated = saved.migrated()
    for name in application.partitions:
        more = f", {migrated[name]:,} of them migrated" if migrated.get(name) else ""
        loads = f"loads {_entities(counts[name])}" if counts[name] else "begins empty"
        yield f"  state {name!r}: {loads}{more}"
    for name, count in sorted(unused.items()):
        yield f"  state {name!r}: leaves {_entities(count)} unused, as no step has this state"
    yield from (f"  hint: {hint}" for hint in hints_of_fields(state_dir, application))


def _counted(application: Application, state_dir: Path) -> tuple[Counter[str], SavedState]:
    """Numbers of entities by state, also of those that cannot be loaded."""
    with saved_state(application, state_dir) as saved:
        counts = Counter(name for name, _, _ in saved.entities())
        counts.update(one.state for one in saved.unloaded)
        return counts, saved


def _entities(count: int) -> str:
    return f"{count:,} {'entity' if count == 1 else 'entities'}"
