"""Transactions that wait for room on the disk."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from wallaroo.gateway.database import lacks_room

_PAUSE_S = 0.5
"""Pause before a transaction is tried again for which the disk had no room."""
_Result = TypeVar("_Result")

log = structlog.get_logger("wallaroo.gateway")


def with_room(transact: Callable[[], _Result], is_over: Callable[[], bool]) -> _Result:
    """What *transact* returns, called until the disk has room for it.

    Args:
        transact: A transaction.
        is_over: Whether it is no longer worth waiting.

    Raises:
        ConnectionError: There was no room, and waiting was no longer worth it.
        sqlite3.Error: It fails for another reason.
    """
    logged = False
    while True:
        try:
            return transact()
        except sqlite3.Error as error:
            if not lacks_room(error):
                raise
            if is_over():
                msg = "the disk has no room, and nothing waits any more"
                raise ConnectionError(msg) from error
            if not logged:
                logged = True
                log.warning("outbox waits", reason=f"the disk has no room: {error}")
        time.sleep(_PAUSE_S)
