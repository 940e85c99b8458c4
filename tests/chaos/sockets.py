"""The Unix sockets that connect other processes: who has them, and how to cut a connection."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

_PIDFD_GETFD = 438
"""Number of the system call on all architectures."""
TO_GATEWAY = r"chunks\.sock"
TO_FIRST_STAGE = r"reader\.new|\d+\.-1"
TO_PARTITION = r"partition-\d+\.new|\d+\.\d+"
"""Names of the sockets of connections to or from a process, where they are accepted."""


def connections(pid: int, name: str) -> list[int]:
    """File descriptors of *pid*: accepted connections of the socket *name*, a pattern."""
    ours = {inode for inode, _ in _accepted(name)}
    return [descriptor for descriptor, inode in _sockets(pid) if inode in ours]


def is_connected(pid: int, name: str) -> bool:
    """Whether *pid* has a connection of the socket *name*, a pattern, at either end."""
    known = {inode for ends in _accepted(name) for inode in ends}
    return any(inode in known for _, inode in _sockets(pid))


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


def _accepted(name: str) -> Iterator[tuple[str, str]]:
    """Both inodes of each accepted connection."""
    listing = subprocess.run(["ss", "-xH"], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        _, _, _, _, path, inode, _, peer, *_ = line.split()
        if re.fullmatch(name, Path(path).name):
            yield inode, peer


def _sockets(pid: int) -> Iterator[tuple[int, str]]:
    """File descriptors of *pid* that are sockets, with their inodes."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                target = str(link.readlink())
                if target.startswith("socket:["):
                    yield int(link.name), target.removeprefix("socket:[").removesuffix("]")
