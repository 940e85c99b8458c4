"""The entities in a state directory, read and checked against the application's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.offline_state import StoppedState
from wallaroo.engine.stored import SavedState
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.model.application import Application
from wallaroo.run.state.classes import state_class_problem
from wallaroo.run.state.directory import read_fixed, readable_checkpoint


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


def saved_state_lines(application: Application, state_dir: Path) -> Iterator[str]:
    """Load all entities in *state_dir*, and say how many there are.

    Raises:
        UsageError: A state class does not fit.
        RuntimeFailure: Entities cannot be loaded.
    """
    if (problem := state_class_problem(state_dir, application)) is not None:
        raise UsageError(problem)
    with saved_state(application, state_dir) as saved:
        counts = Counter(name for name, _, _ in saved.entities())
        if saved.unloaded:
            first, *others = map(str, saved.unloaded)
            more = f"; so it is with {len(others):,} more" if others else ""
            msg = f"{first}{more}"
            raise RuntimeFailure(msg)
        yield f"{state_dir} fits it:"
        migrated = saved.migrated()
    for name in application.partitions:
        more = (
            f", {migrated[name]:,} migrated from an earlier version" if migrated.get(name) else ""
        )
        yield f"  state {name!r}: {counts[name]:,} entities{more}"
