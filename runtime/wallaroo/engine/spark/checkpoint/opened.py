"""The files of a checkpoint as of its last commit, kept open so that nobody can remove them.

Those on an object store cannot be kept open: Spark removes them ten epochs later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wallaroo.engine.spark.checkpoint.epochs import last_commit, run_of
from wallaroo.engine.stored import Commit
from wallaroo.system.object_store import ObjectPath, is_stored

_VERSION = re.compile(r"(\d+)_?[-\w]*\.(?:changelog|zip)")
"""Name of a file of the state store: the version of an epoch is greater by one than its number."""


class Moment(NamedTuple):
    """What a checkpoint has at a moment."""

    run: str | None
    """Name of the query; None if none has begun."""
    commit: Commit | None
    """The last committed epoch."""

    @classmethod
    def of(cls, checkpoint: Path) -> Moment:
        """The present moment of *checkpoint*, whose query may be running."""
        has_run = (checkpoint / "metadata").exists()
        return cls(run_of(checkpoint) if has_run else None, last_commit(checkpoint))


class OpenFile(NamedTuple):
    """A file of a checkpoint."""

    name: Path
    """Its path in the checkpoint."""
    source: int | ObjectPath
    """Its descriptor; of an object, which cannot be kept open, its path."""
    status: os.stat_result
    """Its size and time."""


def open_files(checkpoint: Path, moment: Moment) -> Iterator[OpenFile]:
    """Open the files of *checkpoint* that belong to the last commit of a *moment*.

    The query may be running. Its files do not change once they have their names; those that it
    removes meanwhile are of earlier epochs. Later epochs are left out. The caller closes the files.
    Objects are only listed: they may be gone when the next epochs have ended.
    """
    epoch = -1 if moment.commit is None else moment.commit.epoch
    if is_stored(checkpoint):
        for file, status in checkpoint.files():
            inside = Path(*file.parts[len(checkpoint.parts) :])
            if not _is_later(inside.parent, inside.name, epoch):
                yield OpenFile(inside, file, status)
        return
    # a directory comes before those in it: a snapshot before the tables that it names
    for folder, folders, names in os.walk(checkpoint):
        folders[:] = [name for name in folders if name[0] != "."]
        place = Path(folder).relative_to(checkpoint)
        for name in names:
            if name[0] != "." and not _is_later(place, name, epoch):
                try:
                    opened = os.open(Path(folder, name), os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                yield OpenFile(place / name, opened, os.fstat(opened))


def _is_later(place: Path, name: str, epoch: int) -> bool:
    """Whether a file is of a later epoch.

    Example:
        >>> _is_later(Path("offsets"), "8", 7), _is_later(Path("offsets"), "7", 7)
        (True, False)
        >>> _is_later(Path("state/0/1"), "9_a-b.changelog", 7), _is_later(Path(), "metadata", 7)
        (True, False)
    """
    if str(place) in {"offsets", "commits"}:
        return name.isdecimal() and int(name) > epoch
    version = _VERSION.fullmatch(name)
    return version is not None and int(version[1]) > epoch + 1
