"""Writes small files atomically and durably, and waits for the disk."""

from __future__ import annotations

import os
from pathlib import Path

from wallaroo.system.object_store import is_stored


def write_durably(file: Path, text: str) -> None:
    """Replace the content of *file* by *text*, durably by the time this returns.

    If the process or the machine fails meanwhile, the file has either its previous content or
    *text*, completely.

    Raises:
        OSError: It could not be written; its previous content is unchanged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     file = Path(directory, "note.json")
        ...     write_durably(file, "{}")
        ...     file.read_text(), [file.name for file in Path(directory).iterdir()]
        ('{}', ['note.json'])
    """
    if is_stored(file):
        file.write_text(text)
        return
    # hidden, because Spark lists some of these directories
    fresh = file.with_name(f".{file.name}.new")
    try:
        with fresh.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        error.filename = str(file)  # not set by failed writes
        raise
    fresh.replace(file)
    wait_until_durable(file.parent)


def wait_until_durable(place: Path) -> None:
    """Wait until the file or directory *place* is on disk: of a directory, the names in it.

    Raises:
        OSError: It cannot be opened or synced.
    """
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync(directory: Path) -> None:
    """Wait until everything in *directory* is on disk.

    Raises:
        OSError: Something in it cannot be opened or synced.
    """
    for folder, _, names in os.walk(directory):
        for name in (*names, "."):
            wait_until_durable(Path(folder, name))
