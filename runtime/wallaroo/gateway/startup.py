"""The start of a gateway: it locks its directory, and waits while the disk is full.

One that takes over first waits until another gateway leaves the directory.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from wallaroo.errors import DamagedFile, RuntimeFailure
from wallaroo.gateway.database import lacks_room
from wallaroo.gateway.internal_api.status import WAITING
from wallaroo.system.disk_space import REMEDY, full
from wallaroo.system.lockfile import hold, is_held
from wallaroo.system.private_files import DIRECTORY_MODE

_LOCK = "gateway.lock"
_PAUSE_S = 0.5
"""Seconds between attempts to write to a full disk."""
_LOOK_S = 0.02
"""Seconds between looks whether another gateway has left: meanwhile, messages wait."""

log = structlog.get_logger("wallaroo.gateway")


def take(directory: Path) -> int:
    """Lock *directory* for a gateway, and create it if it is missing.

    Returns:
        The descriptor of the lock file.

    Raises:
        RuntimeFailure: The directory is in use.
    """
    directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    # a gateway that is still stopping writes, and would send the same outputs
    return hold(directory / _LOCK, "is there another gateway?")


async def once_it_is_free(
    directory: Path, on_wait: Callable[[], None], ended: asyncio.Future[Any]
) -> None:
    """Wait until no other gateway has *directory*, or this one is asked to stop.

    Args:
        directory: The directory.
        on_wait: Called once if it has to wait.
        ended: Done when this gateway is asked to stop.
    """
    lock = directory / _LOCK
    if not is_held(lock):
        return
    on_wait()
    log.info(WAITING, directory=str(directory))
    while is_held(lock) and not ended.done():
        await asyncio.wait([ended], timeout=_LOOK_S)


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
            disk_full = lacks_room(error)
            if not disk_full or ended.done():
                reason = f"{full(directory)}: {REMEDY}" if disk_full else str(error)
                msg = f"the state directory {directory} cannot be used: {reason}"
                raise RuntimeFailure(msg) from error
        if not warned:
            warned = True
            log.warning("gateway waits", reason=full(directory), remedy=REMEDY)
        await asyncio.wait([ended], timeout=_PAUSE_S)
