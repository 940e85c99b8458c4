"""Locks a directory so that only one process at a time uses it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from wallaroo.errors import RuntimeFailure

_WAIT_S = 15.0
"""Seconds that processes of the previous owner may take to end."""


def hold(file: Path, remedy: str, wait_s: float | None = None) -> int:
    """Lock *file* until this process ends or closes the returned descriptor.

    Args:
        file: A file in the directory; created if necessary.
        remedy: What to do if another process holds the lock; part of the error message.
        wait_s: Seconds to wait for the lock; by default, the time that an ending process may take.

    Returns:
        File descriptor of the open file.

    Raises:
        RuntimeFailure: Another process holds the lock.
        OSError: The file cannot be created.
    """
    opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + (_WAIT_S if wait_s is None else wait_s)
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(opened)
                msg = f"{file.parent} is in use by another process; {remedy}"
                raise RuntimeFailure(msg) from None
            time.sleep(0.1)
        else:
            return opened
