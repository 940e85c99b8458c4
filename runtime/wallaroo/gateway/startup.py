"""The start of a gateway: it locks its directory, and waits while the disk is full."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog

from wallaroo.errors import DamagedFile, RuntimeFailure
from wallaroo.gateway.consistency.acceptance import accept_if_asked
from wallaroo.gateway.consistency.agreement import JOURNAL, OUTBOX
from wallaroo.gateway.consistency.damage import check_for_damage
from wallaroo.gateway.consistency.loss import check_for_loss
from wallaroo.gateway.database import claim, lacks_room
from wallaroo.system.disk_space import REMEDY, full, is_full
from wallaroo.system.lockfile import hold
from wallaroo.system.private_files import DIRECTORY_MODE

_PAUSE_S = 0.5
"""Seconds between attempts to write to a full disk."""

log = structlog.get_logger("wallaroo.gateway")


def take(
    directory: Path, application: str, sources: Sequence[str] = (), *, skip_damaged: bool = False
) -> int:
    """Lock *directory* for a gateway of *application*, and create its journal and outbox.

    Args:
        directory: The directory.
        application: Name of the application.
        sources: Names of its sources.
        skip_damaged: Whether to set damaged messages and outputs aside.

    Returns:
        The descriptor of the lock file.

    Raises:
        RuntimeFailure: The directory is in use, or belongs to another application.
        DamagedFile: A file in it is not as it was written.
    """
    directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    # a gateway that is still stopping writes, and would send the same outputs
    lock = hold(directory / "gateway.lock", "is there another gateway?")
    try:
        for name in (JOURNAL, OUTBOX):
            claim(directory / name, application)
        check_for_damage(directory, sources, skip=skip_damaged)
        check_for_loss(directory, sources, skip=skip_damaged)
        accept_if_asked(directory)
    except BaseException:
        os.close(lock)
        raise
    return lock


async def once_there_is_room(
    directory: Path, act: Callable[[], None], ended: asyncio.Future[Any]
) -> None:
    """Call *act*, and retry while the disk is full, as a running gateway does.

    Args:
        directory: The directory that *act* writes to.
        act: What to call; a failed call leaves nothing open.
        ended: Done when the gateway is asked to stop.

    Raises:
        RuntimeFailure: The directory cannot be used, or the gateway was asked to stop.
        DamagedFile: A file in it is not as it was written.
    """
    warned = False
    while True:
        try:
            return act()
        except DamagedFile:
            raise
        except (OSError, sqlite3.Error) as error:
            disk_full = is_full(error) if isinstance(error, OSError) else lacks_room(error)
            if not disk_full or ended.done():
                reason = f"{full(directory)}: {REMEDY}" if disk_full else str(error)
                msg = f"the state directory {directory} cannot be used: {reason}"
                raise RuntimeFailure(msg) from error
        if not warned:
            warned = True
            log.warning("gateway waits", reason=full(directory), remedy=REMEDY)
        await asyncio.wait([ended], timeout=_PAUSE_S)
