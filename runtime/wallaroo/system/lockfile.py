"""A directory that one process at a time may use."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from wallaroo.errors import RuntimeFailure

_WAIT_S = 15.0
"""Seconds that the processes of the last user of a directory may take to end."""


def hold(file: Path, remedy: str, wait_s: float | None = None) -> int:
    """Lock *file* until this process ends, or closes what is returned.

    Args:
        file: The file, in the directory in question; made if it is not there.
        remedy: What to do where another process holds it for long.
        wait_s: Seconds to wait for it; by default as long as an ending process may take.

    Returns:
        The open file.

    Raises:
        RuntimeFailure: Another process holds it.
        OSError: It cannot be made.
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
