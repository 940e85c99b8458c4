"""Cuts connections between other processes: their sockets are borrowed from one of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_PIDFD_GETFD = 438
"""Number of the system call on all architectures."""
_CONNECTED = "03"


def connections(pid: int, name: str) -> list[int]:
    """File descriptors of *pid*: connections to the Unix sockets whose names contain *name*."""
    inodes = set(_inodes(name))
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if str(link.readlink()) in inodes:
                    found.append(int(link.name))
    return found


def cut(pid: int, descriptor: int) -> None:
    """End the connection that *pid* has as *descriptor*, in both directions.

    Raises:
        OSError: The process is gone, or the caller may not do this to it.
    """
    process = os.pidfd_open(pid)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        borrowed = libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
        if borrowed < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
    finally:
        os.close(process)
    with socket.socket(fileno=borrowed) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _inodes(name: str) -> Iterator[str]:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, _, _, state, inode, *path = line.split(maxsplit=7)
        if state == _CONNECTED and path and name in Path(path[0]).name:
            yield f"socket:[{inode}]"
