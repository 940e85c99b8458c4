"""Private directories for temporary files, which a later process removes if their own was killed.

In a container that is killed again and again, `/tmp` would fill up: it outlives the container.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

_PREFIX = "wallaroo-"
_OWNER = "owner"
"""File in a directory that its process holds locked."""


class Scratch(tempfile.TemporaryDirectory[str]):
    """A directory that is removed at the end of the block, by `cleanup`, or by `sweep`.

    Args:
        kind: What it is for, as a part of its name.

    Example:
        >>> with Scratch("java") as directory:
        ...     Path(directory).is_dir(), Path(directory).name.startswith("wallaroo-java-")
        (True, True)
    """

    def __init__(self, kind: str = "") -> None:
        super().__init__(
            prefix=f"{_PREFIX}{kind}-" if kind else _PREFIX, ignore_cleanup_errors=True
        )
        new = Path(self.name, f"{_OWNER}.new")
        with contextlib.suppress(OSError):  # a full disk is reported by what comes next
            self._owner = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._owner, fcntl.LOCK_EX)
            new.rename(new.with_name(_OWNER))  # it is never seen without its lock

    def cleanup(self) -> None:
        """Remove it."""
        super().cleanup()
        owner, self._owner = self._owner, -1
        if owner >= 0:
            os.close(owner)

    _owner = -1


def sweep() -> None:
    """Remove the directories of processes that were killed, in a thread."""
    threading.Thread(target=_sweep, name="sweep", daemon=True).start()


def _sweep() -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is in use, of another user, or has just gone
            status = directory.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                _remove(directory)


def _remove(directory: Path) -> None:
    """Remove *directory* unless a process has it.

    Raises:
        OSError: A process has it, or it is none of `Scratch`.
    """
    owner = os.open(directory / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(owner)
