"""A snapshot of the state of an application, made while the application may run."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import DamagedFile, RuntimeFailure, UsageError, reason_of
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.database import lacks_room
from wallaroo.run.state.directory import TAKEN, read_fixed
from wallaroo.run.state.snapshots.contents import NAMES, Snapshot, names_in
from wallaroo.run.state.snapshots.state_copy import StateCopy
from wallaroo.run.state.snapshots.stored_snapshot import check_free, store
from wallaroo.run.state.snapshots.unfinished import unfinished_directory
from wallaroo.system.atomic_write import sync, wait_until_durable
from wallaroo.system.disk_space import full
from wallaroo.system.object_store import ObjectPath, is_stored
from wallaroo.system.private_files import DIRECTORY_MODE
from wallaroo.system.scratch import Scratch, sweep

PARTIAL = ".{}.partial"
"""Name of a directory in which a copy is being made."""


def take_snapshot(source: Path, target: Path, journal: Path | None = None) -> Snapshot:
    """Copy the state in *source*, which may be in use, to *target*.

    A directory has its name once the copy is complete, checked and on disk. A copy on an object
    store is made and checked in the directory for temporary files, and complete once it has its
    last object, `snapshot.json`.

    Args:
        source: The state directory, or the place of the state on an object store.
        target: The copy.
        journal: The directory of its gateway, with the log and the dead letters; None if it is
            *source*.

    Raises:
        UsageError: The source is not a state directory, or the target exists.
        DamagedFile: A file of the source is not as it was written; the message names it.
        RuntimeFailure: The original cannot be copied, or the copy cannot be written.
    """
    source, place = source.resolve(), target.absolute()
    journal = (journal or source).resolve()
    read_fixed(source)
    if is_stored(journal) or not (journal / LOG).is_dir():
        msg = f"{journal} contains no {LOG}: a snapshot needs the log and the checkpoint"
        msg += "; name the directory with the log with --log-dir" * is_stored(journal)
        raise UsageError(msg)
    try:
        _check_target(target, source, journal)
        with _stored(place) if is_stored(place) else _partial(place) as partial:
            taken = StateCopy(source, journal, partial).take()
            names = [place.name, *names_in(partial)]
            (partial / TAKEN).write_text(json.dumps({**taken._asdict(), NAMES: names}))
            return taken
    except (DamagedFile, UsageError):
        raise
    except (OSError, sqlite3.Error) as error:
        reason = full(_disk_of(place)) if lacks_room(error) else reason_of(error)
        if (file := getattr(error, "filename", None)) is not None and str(file) not in reason:
            reason = f"{file}: {reason}"
        msg = f"no snapshot of {source} was made: {reason}"
        raise RuntimeFailure(msg) from error


def _check_target(target: Path, source: Path, journal: Path) -> None:
    """Refuse a *target* that cannot be one.

    Raises:
        UsageError: It cannot be one.
        OSError: It cannot be looked at.
    """
    if isinstance(target, ObjectPath):
        check_free(target)
    elif target.exists():
        msg = f"{target.absolute()} exists already: name a directory that does not"
        raise UsageError(msg)
    for used in (source, journal):
        if str(used) in map(str, (target.resolve(), *target.resolve().parents)):
            msg = f"{target.absolute()} is in {used}: name a directory elsewhere"
            raise UsageError(msg)


def _disk_of(place: Path) -> Path:
    """The directory on whose disk a copy for *place* is made."""
    return Path(tempfile.gettempdir()) if is_stored(place) else place.parent


@contextlib.contextmanager
def _stored(target: ObjectPath) -> Iterator[Path]:
    """A temporary directory, whose content is stored at *target* if the block succeeds."""
    sweep()  # what one has left that was killed
    with Scratch("snapshot") as directory:
        partial = Path(directory, target.name)
        partial.mkdir(DIRECTORY_MODE)
        yield partial
        store(partial, target)


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A directory that becomes *target* if the block succeeds, and is removed otherwise."""
    target.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    partial = target.with_name(PARTIAL.format(target.name))
    partial.mkdir(DIRECTORY_MODE, exist_ok=True)
    with (
        unfinished_directory(partial, "another snapshot has the same target"),
        _removed_on_failure(partial),
    ):
        yield partial
    with _removed_on_failure(partial):
        sync(partial)
        partial.rename(target)
        wait_until_durable(target.parent)


@contextlib.contextmanager
def _removed_on_failure(directory: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
