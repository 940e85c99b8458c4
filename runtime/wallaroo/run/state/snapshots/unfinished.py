"""Places that a command is still copying a snapshot to; a mark in each says so.

In a directory, the mark is a locked file. A store has no locks: there, the mark is an object with
random content. Each command checks regularly that the mark is still its own, so that of two
commands only the later one continues.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from wallaroo.errors import RuntimeFailure
from wallaroo.run.state.directory import UNFINISHED
from wallaroo.system.lockfile import hold
from wallaroo.system.object_store import ObjectPath

Look = Callable[[bool], None]
"""Raises if another command writes to the place; looks now and then, or at once if that is true."""
_LOOK_S = 1.0
"""Seconds between two looks."""
_OF_VOLUME = "lost+found"
"""What a volume contains when it is empty."""


@contextlib.contextmanager
def unfinished_directory(directory: Path, in_use: str) -> Iterator[None]:
    """Mark *directory* as unfinished until the block is done, and remove what was left there.

    Raises:
        RuntimeFailure: Another command writes there; the message says *in_use*.
    """
    mark = directory / UNFINISHED
    lock = hold(mark, in_use, wait_s=0.0)
    try:
        for left in content_of(directory):
            if left.is_dir():
                shutil.rmtree(left)
            elif left != mark:
                left.unlink()
        yield
        mark.unlink()
    finally:
        os.close(lock)


def content_of(directory: Path) -> list[Path]:
    """What is in *directory*, without what each volume has."""
    return [file for file in directory.iterdir() if file.name != _OF_VOLUME]


@contextlib.contextmanager
def unfinished(place: ObjectPath) -> Iterator[Look]:
    """Mark *place* as unfinished until the block is done, and remove what was left there before.

    Only what is marked already is removed; the caller makes sure that there is nothing else.

    Yields:
        What is to be called before each object is written.

    Raises:
        RuntimeFailure: Another command writes there, too.
    """
    mark, ours = place / UNFINISHED, os.urandom(16)
    is_left = mark.exists()
    mark.write_bytes(ours)
    looked = time.monotonic()

    def look(at_once: bool) -> None:
        nonlocal looked
        if not at_once and time.monotonic() - looked < _LOOK_S:
            return
        with contextlib.suppress(FileNotFoundError):
            if mark.read_bytes() == ours:
                looked = time.monotonic()
                return
        msg = f"another command writes to {place}, too: name another place"
        raise RuntimeFailure(msg)

    if is_left:
        time.sleep(2 * _LOOK_S)  # a command that still writes there notices meanwhile
        remove_objects(place)
    yield look
    look(True)
    mark.unlink(missing_ok=True)


def remove_objects(place: ObjectPath) -> None:
    """Remove all objects below *place* but the mark, without which the others would stay."""
    for file, _ in place.files():
        if file != place / UNFINISHED:
            file.unlink(missing_ok=True)
