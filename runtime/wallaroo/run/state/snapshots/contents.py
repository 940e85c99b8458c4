"""The contents of a snapshot, as its last file tells them."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.errors import UsageError
from wallaroo.run.state.directory import APPLICATION, TAKEN, UNFINISHED
from wallaroo.system.object_store import ObjectPath

NAMES = "names"
"""Member of `TAKEN`: the name of the snapshot, and those of all its files."""
FILES = "files"
"""Member of `TAKEN` on an object store: bytes and SHA-256 of each object, by its name."""


class Snapshot(NamedTuple):
    """What a snapshot has."""

    position: int
    """Offset of the first message that is yet to be processed."""
    epoch: int | None
    """The last committed epoch of its checkpoint; None if there is none."""
    covered: int
    """Offset of the first message that is not in the state of this checkpoint."""
    waiting: int
    """Messages that are yet to be processed."""
    undelivered: int
    """Outputs that are yet to be delivered."""
    bytes: int
    """Bytes of all files."""


def read_taken(place: Path) -> dict[str, Any]:
    """What the snapshot at *place* says of itself.

    Raises:
        UsageError: It is none, or not a complete one.
    """
    try:
        values: dict[str, Any] = json.loads((place / TAKEN).read_bytes())
        Snapshot(**{name: values[name] for name in Snapshot._fields})
        _check_names(values.get(FILES, ()))
    except (OSError, ValueError, TypeError, LookupError) as error:
        msg = f"{place} is not a complete snapshot, with a {TAKEN}: {type(error).__name__}: {error}"
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            msg = f"{place} is not a snapshot, or not a complete one: it has no {TAKEN}"
        raise UsageError(msg) from error
    return values


def _check_names(names: Collection[str]) -> None:
    if names and APPLICATION not in names:
        msg = f"{APPLICATION} is missing"
        raise ValueError(msg)
    for name in names:
        if {"..", "/"} & {*Path(name).parts}:
            msg = f"the file {name!r} would be elsewhere"
            raise ValueError(msg)


def names_in(place: Path) -> list[str]:
    """The names of all files of a snapshot, without those that say what it is."""
    if isinstance(place, ObjectPath):
        files = [Path(*file.parts[len(place.parts) :]) for file, _ in place.files()]
    else:
        files = [file.relative_to(place) for file in place.rglob("*") if not file.is_dir()]
    return sorted(map(str, {*files} - {Path(TAKEN), Path(UNFINISHED)}))
