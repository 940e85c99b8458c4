"""Locks a directory so that only one process at a time uses it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from wallaroo.errors import RuntimeFailure

_WAIT_S = 15.0
"""Seconds that processes of the previous owner may take to end."""


def hold(
    file: Path,
    remedy: str,
    wait_s: float | None = None,
    on_wait: Callable[[float], None] = lambda _seconds: None,
) -> int:
    """Lock *file* until this process ends or closes the returned descriptor.

    Args:
        file: A file in the directory; created if necessary.
        remedy: What to do if another process holds the lock; part of the error message.
        wait_s: Seconds to wait for the lock; by default, the time that an ending process may take.
        on_wait: Called once if it has to wait, with the seconds that it will at most.

    Returns:
        File descriptor of the open file.

    Raises:
        RuntimeFailure: Another process holds the lock.
        OSError: The file cannot be created.
    """
    opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    wait_s = _WAIT_S if wait_s is None else wait_s
    give_up, noted = time.monotonic() + wait_s, False
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(opened)
                msg = f"{file.parent} is in use by another process; {remedy}"
                raise RuntimeFailure(msg) from None
            if not noted:
                noted = True
                on_wait(wait_s)
            time.sleep(0.1)
        else:
            return opened


def is_held(file: Path) -> bool:
    """Whether a process holds *file* locked.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     file = Path(directory, "lock")
        ...     before, lock = is_held(file), hold(file, "stop it")
        ...     before, is_held(file), os.close(lock), is_held(file)
        (False, True, None, False)
    """
    try:
        opened = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False
