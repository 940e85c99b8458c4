"""Detects full disks, and describes them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from wallaroo.errors import RuntimeFailure

LEAST_BYTES = 4 * 1024**2
"""Free space that a start requires, for new files of a log and of a checkpoint."""
_MOST_RESERVED_BYTES = 64 * 1024**2
_RESERVED_PART = 8
REMEDY = "free some space there, then start again; accepted messages are kept"
"""What to do about a full disk."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


def is_full(error: OSError) -> bool:
    """Whether *error* means that a disk is full or a quota is exceeded."""
    return error.errno in _FULL


def full(place: Path) -> str:
    """Return a message that the disk of *place* is full, with its free space."""
    place = _existing(place)
    disk = os.statvfs(place)
    free, size = (blocks * disk.f_frsize / 1024**2 for blocks in (disk.f_bavail, disk.f_blocks))
    return f"the disk of {place} is full ({free:,.1f} MiB of {size:,.0f} MiB are free)"


def _existing(place: Path) -> Path:
    """*place*, or the directory above it that exists."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def free_bytes(place: Path) -> int:
    """Return the free space on the disk of *place*, which need not exist."""
    disk = os.statvfs(_existing(place))
    return disk.f_bavail * disk.f_frsize


def reserved_bytes(place: Path) -> int:
    """Return how much of the disk of *place* new messages leave free, so that old ones can leave.

    Publishing the outputs of accepted messages requires space, and is what frees it.
    """
    disk = os.statvfs(place)
    return min(_MOST_RESERVED_BYTES, disk.f_blocks * disk.f_frsize // _RESERVED_PART)


def shortage(*places: Path) -> str | None:
    """Return which disk of *places* has too little free space to go on; None if none has."""
    return next((full(place) for place in places if free_bytes(place) < LEAST_BYTES), None)


def check_room(place: Path) -> None:
    """Check that the disk of *place* has enough free space for a start.

    Raises:
        RuntimeFailure: Less than `LEAST_BYTES` are free.
    """
    if free_bytes(place) < LEAST_BYTES:
        msg = f"{full(place)}: {REMEDY}"
        raise RuntimeFailure(msg)
