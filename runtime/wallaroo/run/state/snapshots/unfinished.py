"""Places on an object store in which a command copies a snapshot, and is not done yet.

A store has no locks. A command leaves an object with a random content, which is there until it is
done, and looks now and then whether that is its own still: of two, the later one goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from wallaroo.errors import RuntimeFailure
from wallaroo.run.state.directory import UNFINISHED
from wallaroo.system.object_store import ObjectPath

Look = Callable[[bool], None]
"""Raises if another command writes to the place; looks now and then, or at once if that is true."""
_LOOK_S = 1.0
"""Seconds between two looks."""


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
        time.sleep(2 * _LOOK_S)  # whoever writes there looks meanwhile
        remove_objects(place)
    yield look
    look(True)
    mark.unlink(missing_ok=True)


def remove_objects(place: ObjectPath) -> None:
    """Remove all objects below *place* but the mark, without which the others would stay."""
    for file, _ in place.files():
        if file != place / UNFINISHED:
            file.unlink(missing_ok=True)
