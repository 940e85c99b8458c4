"""Large frames between processes of one machine, past Spark: only their names cross its shuffle.

Spark copies a frame about eight times on its way. A file in memory is written once and read once,
and the frame with its name keeps its place in the order of all frames.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_LEAST_BYTES = 16 * 1024
"""Smaller frames are not worth a file."""


class SharedFiles:
    """Files in memory, each written by one process and taken by another.

    Args:
        directory: Where they are.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     files = SharedFiles(Path(directory))
        ...     files.put("1-1", b"small"), files.put("1-2", b"x" * 100_000)
        ...     len(files.take("1-2")), list(Path(directory).iterdir())
        (False, True)
        (100000, [])
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, name: str, content: bytes) -> bool:
        """Write *content* to a new file; returns False if it is better sent."""
        if len(content) < _LEAST_BYTES:
            return False
        path = self._directory / name
        try:
            with path.open("xb", buffering=0) as file:
                if file.write(content) == len(content):
                    return True
        except OSError:  # no room
            pass
        path.unlink(missing_ok=True)
        return False

    def take(self, name: str) -> bytes:
        """Read a file, and remove it."""
        path = self._directory / name
        content = path.read_bytes()
        path.unlink()
        return content


def directory_of(checkpoint: Path) -> Path:
    """The directory in memory for the query in *checkpoint*, which need not exist."""
    digest = hashlib.sha256(os.fsencode(str(checkpoint.resolve()))).hexdigest()[:16]
    return _MEMORY / f"wallaroo-{os.getuid()}-{digest}"


def fresh_directory(checkpoint: Path) -> Path | None:
    """An empty directory in memory for the query in *checkpoint*; None if there is no room for one.

    It has the same name each time, so that what a killed query has left is removed.
    """
    directory = directory_of(checkpoint)
    try:
        remove(directory)
        directory.mkdir(mode=0o700)
    except OSError:
        return None
    return directory


def remove(directory: Path) -> None:
    """Remove a directory of `fresh_directory`, if it is there."""
    if directory.exists():
        shutil.rmtree(directory)
