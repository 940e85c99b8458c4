"""The restoration of a snapshot: as the state and the log with which an application starts."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog

from wallaroo.errors import RuntimeFailure, UsageError, reason_of
from wallaroo.gateway.damage import LETTERS, LOG
from wallaroo.gateway.marks import mark_file
from wallaroo.run.state.directory import APPLICATION, UNFINISHED, read_fixed
from wallaroo.run.state.snapshots.contents import FILES, Snapshot, names_in, read_taken
from wallaroo.run.state.snapshots.stored_snapshot import check_free, fetch_file, store_file
from wallaroo.run.state.snapshots.unfinished import (
    Look,
    content_of,
    unfinished,
    unfinished_directory,
)
from wallaroo.system.atomic_write import sync
from wallaroo.system.disk_space import full, is_full
from wallaroo.system.object_store import ObjectPath, is_stored
from wallaroo.system.private_files import DIRECTORY_MODE

_OF_GATEWAY = {"claim.json", LETTERS, LOG, mark_file(Path(LOG)).name}
"""Names in a snapshot that belong to the directory with the log."""
_FIRST, _LAST = "checkpoint/metadata", APPLICATION
"""Without the last, a start refuses a place that has the first."""
_FRESH = ".restored"
"""Where the files for the gateway are until all are there."""

log = structlog.get_logger("wallaroo")


def restore(source: Path, state: Path, journal: Path | None = None) -> Snapshot:
    """Copy the snapshot *source* to where an application starts.

    A start refuses an incomplete copy; the same call, repeated, starts over.

    Args:
        source: A directory, or a place on an object store.
        state: A state directory, or a place for state on an object store; it has no state yet.
        journal: The directory for the log; None for *state*.

    Raises:
        UsageError: The snapshot is not complete, or a target is not empty.
        DamagedFile: A file of the snapshot is not as it was written; the message names it.
        RuntimeFailure: A file cannot be written, or a store does not answer.
    """
    source, state = source.resolve(), state.resolve()
    journal = (journal or state).resolve()
    taken = read_taken(source)
    read_fixed(source)
    files = taken.get(FILES) or dict.fromkeys(names_in(source))
    of_gateway = sorted(name for name in files if Path(name).parts[0] in _OF_GATEWAY)
    of_state = sorted({*files} - {*of_gateway} - {_FIRST, _LAST})
    log.info("restoring", snapshot=str(source), files=len(files))
    try:
        with ExitStack() as stack:
            looks = [
                stack.enter_context(_unfinished(place)) for place in dict.fromkeys((state, journal))
            ]
            fresh = journal / _FRESH
            for name in of_gateway:
                _copy(source / name, fresh / name, files[name])
            for name in (_FIRST, *of_state):
                if name in files:
                    looks[0](False)
                    _copy(source / name, state / name, files[name])
            sync(fresh)
            for part in sorted(fresh.iterdir(), key=lambda part: part.name == LOG):
                part.rename(journal / part.name)
            fresh.rmdir()
            looks[0](True)
            _copy(source / _LAST, state / _LAST, files[_LAST])
            for place in {state, journal}:
                if not is_stored(place):
                    sync(place)
    except OSError as error:
        reason = full(journal) if is_full(error) else reason_of(error)
        msg = f"{source} was not restored: {reason}"
        raise RuntimeFailure(msg) from error
    return Snapshot(**{name: taken[name] for name in Snapshot._fields})


def _copy(source: Path, target: Path, expected: Sequence[Any] | None) -> None:
    if not isinstance(target, ObjectPath):
        target.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        fetch_file(source, target, expected)
        return
    with tempfile.NamedTemporaryFile(prefix="wallaroo-") as kept:
        fetch_file(source, Path(kept.name), expected)
        store_file(Path(kept.name), target)


@contextlib.contextmanager
def _unfinished(place: Path) -> Iterator[Look]:
    """Mark *place*, which is empty, or has what an earlier call has left, until the block is done.

    Yields:
        What is to be called before each file is written.

    Raises:
        UsageError: It has something else.
        RuntimeFailure: Another command restores to it.
    """
    if isinstance(place, ObjectPath):
        check_free(place)
        with unfinished(place) as look:
            yield look
        return
    if not (place / UNFINISHED).exists() and place.exists() and content_of(place):
        msg = f"{place} is not empty: name a place with nothing in it"
        raise UsageError(msg)
    place.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    with unfinished_directory(place, "another command restores to it"):
        yield lambda _: None
