"""A snapshot on an object store: objects with the names of its files, and the last one lists them.

Only that list, with their checksums, says which objects belong together. The rest of a command that
was killed is not a snapshot; a mark, the first object, says that it may be removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.errors import UsageError, damaged
from wallaroo.run.state.directory import APPLICATION, TAKEN, UNFINISHED
from wallaroo.run.state.snapshots.contents import FILES, names_in
from wallaroo.run.state.snapshots.unfinished import unfinished
from wallaroo.system.object_store import ObjectPath

_WHOLE_BYTES = 4 * 1024**2
"""Up to which an object is stored by one request."""
_PIECE_BYTES = 8 * 1024**2


def store(directory: Path, target: ObjectPath) -> None:
    """Store the files of a snapshot in *directory*, which are adapted to their place, at *target*.

    What an unfinished snapshot has left there is removed.

    Raises:
        UsageError: There is something else.
        RuntimeFailure: The store refuses a request, or does not answer; or another command stores
            a snapshot there.
        OSError: A file cannot be read.
    """
    check_free(target)
    with unfinished(target) as look:
        relocate(directory / "checkpoint", target / "checkpoint")
        names = names_in(directory)
        names.remove(APPLICATION)
        for name in (*names, APPLICATION):  # last: a place without it has no state
            look(False)
            store_file(directory / name, target / name)
        values = json.loads((directory / TAKEN).read_text())
        files = {name: directory / name for name in (*names, APPLICATION)}
        values[FILES] = {name: [file.stat().st_size, _digest(file)] for name, file in files.items()}
        look(True)
        (target / TAKEN).write_text(json.dumps(values))


def check_free(place: ObjectPath) -> None:
    """Refuse a *place* that has anything but what an unfinished copy has left.

    Raises:
        UsageError: It has something else, or a complete snapshot.
        RuntimeFailure: The bucket does not exist, or the store does not answer.
    """
    found = {file for file, _ in place.files()}
    if found and (place / TAKEN in found or place / UNFINISHED not in found):
        msg = f"{place} exists already: name a place with nothing in it"
        raise UsageError(msg)


def store_file(file: Path, target: ObjectPath) -> None:
    """Store a *file* at *target*.

    Raises:
        RuntimeFailure: The store refuses a request, or does not answer.
        OSError: The file cannot be read.
    """
    if file.stat().st_size <= _WHOLE_BYTES:
        target.write_bytes(file.read_bytes())
        return
    with file.open("rb") as opened:
        target.write_from(opened)


def fetch_file(source: Path, file: Path, expected: Sequence[Any] | None) -> None:
    """Copy *source*, an object or a file, to *file*, which is replaced.

    Args:
        source: What to copy.
        file: The copy.
        expected: Bytes and SHA-256 that it must have; None for any.

    Raises:
        DamagedFile: The source is missing, or is not as it was written; the message names it.
        RuntimeFailure: The store refuses a request, or does not answer.
        OSError: The file cannot be written.
    """
    digest = hashlib.sha256()
    try:
        opened = source.open("rb", _PIECE_BYTES)
    except FileNotFoundError as error:
        raise damaged(source, "it is missing") from error
    with opened, file.open("wb") as out:
        while piece := opened.read(_PIECE_BYTES):
            out.write(piece)
            digest.update(piece)
    if expected is not None and [file.stat().st_size, digest.hexdigest()] != [*expected]:
        raise damaged(source, "its size or its checksum is not that of the snapshot")


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
