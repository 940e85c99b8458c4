"""The directory of a gateway that starts: it is held alone, and a full disk is waited for."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.acceptance import accept_if_asked
from wallaroo.gateway.consistency.agreement import JOURNAL, OUTBOX
from wallaroo.gateway.database import claim, lacks_room
from wallaroo.system.disk_space import REMEDY, full, is_full
from wallaroo.system.lockfile import hold

_PAUSE_S = 0.5
"""Pause before it is tried again to write to a disk that was full."""

log = structlog.get_logger("wallaroo.gateway")


def take(directory: Path, application: str) -> int:
    """Take *directory* for the gateway of *application*; its journal and outbox are there then.

    Returns:
        The open file that keeps others out.

    Raises:
        RuntimeFailure: Another gateway has it, or it is another application's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # one that is still on its end writes, and sends what this one would send, too
    lock = hold(directory / "gateway.lock", "is there another gateway?")
    try:
        for name in (JOURNAL, OUTBOX):
            claim(directory / name, application)
        accept_if_asked(directory)
    except BaseException:
        os.close(lock)
        raise
    return lock


async def once_there_is_room(
    directory: Path, act: Callable[[], None], ended: asyncio.Future[Any]
) -> None:
    """Do *act*; while the disk is full, wait as a gateway that runs does, and try again.

    Args:
        directory: Where *act* writes.
        act: What to do; leaves nothing open where it fails.
        ended: Done once the gateway is to end.

    Raises:
        RuntimeFailure: The directory cannot be used, or *ended* was done meanwhile.
    """
    told = False
    while True:
        try:
            return act()
        except (OSError, sqlite3.Error) as error:
            lacks = is_full(error) if isinstance(error, OSError) else lacks_room(error)
            if not lacks or ended.done():
                reason = f"{full(directory)}: {REMEDY}" if lacks else str(error)
                msg = f"the state directory {directory} cannot be used: {reason}"
                raise RuntimeFailure(msg) from error
        if not told:
            told = True
            log.warning("gateway waits", reason=full(directory), remedy=REMEDY)
        await asyncio.wait([ended], timeout=_PAUSE_S)
