"""Notices that the source files of an application have changed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_MOST_FILES = 2_000
"""Source files that are looked at while imports fail; more are not those of an application."""
_NOT_OURS = {"__pycache__", "node_modules", "site-packages", "dist-packages"}

Mark = tuple[int, int, int]
"""Time of change, size and number of a file."""
Others = Mapping[str, Mark | None]
"""Files by path; None for one that has gone."""


class Changes:
    """Compares source files with what was read of them.

    Args:
        directory: Directory of the application.
        files: Contents by path.
    """

    def __init__(self, directory: Path, files: Mapping[str, bytes]) -> None:
        self._directory = directory
        self.note(files)

    def note(self, files: Mapping[str, bytes], others: Others | None = None) -> None:
        """From now on compare with *files*.

        Args:
            files: Contents by path.
            others: What `others` returned before they were read, if imports failed: they may lack
                another file. None if they have all.
        """
        self._files = dict(files)
        self._marks: dict[str, Mark | None] = {}
        self._others = others

    def found(self) -> bool:
        """Whether a file has changed, or is there that may have been lacking."""
        for path, content in self._files.items():
            mark = _mark(path)
            if path in self._marks and self._marks[path] == mark:
                continue
            if _content(path) != content:
                return True
            self._marks[path] = mark
        if self._others is None:
            return False
        return any(
            mark != self._others.get(path)
            for path, mark in self.others().items()
            if path not in self._files
        )

    def others(self) -> Others:
        """All source files in the directory, as they are now."""
        paths = itertools.islice(_sources(self._directory), _MOST_FILES)
        return {path: _mark(path) for path in paths}


def _sources(directory: Path) -> Iterator[str]:
    for place, directories, files in os.walk(directory):
        directories[:] = [
            one
            for one in directories
            if one not in _NOT_OURS
            and not one.startswith(".")
            and not Path(place, one, "pyvenv.cfg").exists()
        ]
        yield from (str(Path(place, file)) for file in files if file.endswith(".py"))


def _mark(path: str) -> Mark | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
