"""Detects full disks, and describes them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from wallaroo.errors import RuntimeFailure

LEAST_BYTES = 4 * 1024**2
"""Free space that a start requires, for new files of SQLite and of a checkpoint."""
REMEDY = "free some space there, then start again; accepted messages are kept"
"""What to do about a full disk."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


def is_full(error: OSError) -> bool:
    """Whether *error* means that a disk is full or a quota is exceeded."""
    return error.errno in _FULL


def full(place: Path) -> str:
    """Return a message that the disk of *place* is full, with its free space."""
    while not place.exists() and place != place.parent:
        place = place.parent
    disk = os.statvfs(place)
    free, size = (blocks * disk.f_frsize / 1024**2 for blocks in (disk.f_bavail, disk.f_blocks))
    return f"the disk of {place} is full ({free:,.1f} MiB of {size:,.0f} MiB are free)"


def check_room(place: Path) -> None:
    """Check that the disk of *place* has enough free space for a start.

    Raises:
        RuntimeFailure: Less than `LEAST_BYTES` are free.
    """
    disk = os.statvfs(place)
    if disk.f_bavail * disk.f_frsize < LEAST_BYTES:
        msg = f"{full(place)}: {REMEDY}"
        raise RuntimeFailure(msg)
