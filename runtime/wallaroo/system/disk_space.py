"""Disks that are full, and how they are told of."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from wallaroo.errors import RuntimeFailure

LEAST_BYTES = 4 * 1024**2
"""Room that a start needs: files of SQLite and of a checkpoint that hold nothing yet."""
REMEDY = "free some space there, then start again; what was accepted is kept"
"""What to do about a full disk."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


def is_full(error: OSError) -> bool:
    """Whether *error* says that a disk, or the share of a user, takes no more."""
    return error.errno in _FULL


def full(place: Path) -> str:
    """That the disk of *place* is full, with how much of it is free."""
    while not place.exists() and place != place.parent:
        place = place.parent
    disk = os.statvfs(place)
    free, size = (blocks * disk.f_frsize / 1024**2 for blocks in (disk.f_bavail, disk.f_blocks))
    return f"the disk of {place} is full ({free:,.1f} MiB of {size:,.0f} MiB are free)"


def check_room(place: Path) -> None:
    """Refuse a start on a disk that has next to no room.

    Raises:
        RuntimeFailure: There is less than `LEAST_BYTES`.
    """
    disk = os.statvfs(place)
    if disk.f_bavail * disk.f_frsize < LEAST_BYTES:
        msg = f"{full(place)}: {REMEDY}"
        raise RuntimeFailure(msg)
