"""The removal of old snapshots."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import RuntimeFailure, UsageError, reason_of
from wallaroo.run.state.directory import TAKEN, UNFINISHED, read_fixed
from wallaroo.run.state.snapshots.contents import NAMES, names_in, read_taken
from wallaroo.run.state.snapshots.snapshot import PARTIAL
from wallaroo.run.state.snapshots.unfinished import remove_objects
from wallaroo.system.lockfile import hold
from wallaroo.system.object_store import ObjectPath, is_stored


def remove_oldest(target: Path, keep: int) -> Iterator[Path]:
    """Remove the oldest snapshots of the same application beside the snapshot *target*.

    Only what is as it was made, and where, is a snapshot: not a copy or a link, nor one that was
    started with, or has other files besides. Unfinished ones in a directory that nobody makes any
    more go, too.

    Args:
        target: The snapshot.
        keep: How many to keep, with this one; at least 1.

    Yields:
        Each one that was removed.

    Raises:
        RuntimeFailure: One cannot be removed.
    """
    application = read_fixed(target).application
    found: list[tuple[float, Path]] = []
    for other in target.absolute().parent.iterdir():
        with contextlib.suppress(OSError, UsageError):  # something else
            if _is_untouched(other) and read_fixed(other).application == application:
                found.append(((other / TAKEN).stat().st_mtime, other))
    partial = () if is_stored(target) else target.absolute().parent.glob(PARTIAL.format("*"))
    for other in partial:
        with contextlib.suppress(RuntimeFailure, OSError):  # it is being made, or something else
            if (other / UNFINISHED).exists():
                lock = hold(other / UNFINISHED, "another command makes it", wait_s=0.0)
                shutil.rmtree(other, ignore_errors=True)
                os.close(lock)
    for _, other in sorted(found, reverse=True)[keep:]:
        try:
            _remove(other)
        except OSError as error:
            msg = f"the snapshot {other} cannot be removed: {reason_of(error)}"
            raise RuntimeFailure(msg) from error
        yield other


def _remove(snapshot: Path) -> None:
    """Remove a snapshot; if this is killed, the rest counts as an unfinished one."""
    mark = snapshot / UNFINISHED
    mark.write_bytes(b"")
    if isinstance(snapshot, ObjectPath):
        (snapshot / TAKEN).unlink()
        remove_objects(snapshot)
        mark.unlink()
    else:
        shutil.rmtree(snapshot.rename(snapshot.with_name(PARTIAL.format(snapshot.name))))


def _is_untouched(directory: Path) -> bool:
    """Whether *directory* is a snapshot that has this name since it was made, and nothing else.

    Raises:
        OSError: It cannot be read.
        UsageError: It is none.
    """
    if not is_stored(directory) and directory.is_symlink():
        return False
    names: list[str] = read_taken(directory)[NAMES]
    return names == [directory.name, *names_in(directory)]
