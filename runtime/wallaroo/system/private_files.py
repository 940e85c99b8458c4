"""Files, directories and sockets that only the user of an application can open.

They contain messages, state and credentials, so their modes do not depend on the umask of the
shell: files have 0600, directories and sockets 0700.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

MASK = 0o077
"""The umask of all processes of an application; Java and Python workers inherit it."""
DIRECTORY_MODE = 0o777 & ~MASK
"""Mode of directories."""
_OUTER_VARIABLE = "WALLAROO_UMASK"
"""Environment variable with the umask of the caller, in octal, for what the caller asked for."""


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Within the block, let this process and those that it starts create private files only."""
    before = os.umask(MASK)
    is_outermost = _OUTER_VARIABLE not in os.environ
    if is_outermost:
        os.environ[_OUTER_VARIABLE] = f"{before:o}"
    try:
        yield
    finally:
        os.umask(before)
        if is_outermost:
            os.environ.pop(_OUTER_VARIABLE, None)


def outer_umask() -> int | None:
    """The umask outside `private_files`, also in a parent; None where it has not been narrowed."""
    try:
        return int(os.environ[_OUTER_VARIABLE], 8)
    except (KeyError, ValueError):
        return None


def as_outside(file: int | Path) -> None:
    """Give *file* the mode that it would have outside `private_files`.

    For what the caller named as an output, and for files of an installation that users share.

    Args:
        file: A new file, or its descriptor.
    """
    umask = outer_umask()
    if umask is None:
        return
    if isinstance(file, Path):
        file.chmod(0o666 & ~umask)
    else:
        os.fchmod(file, 0o666 & ~umask)


def warn_if_open(directory: Path, logger: str = "wallaroo") -> None:
    """Log a warning if others than its owner can open the state *directory*; it is not changed.

    In a pod, the root of a volume is not reported: the cluster sets its mode, for instance because
    of `fsGroup`, and pods that do not mount the volume cannot open it.

    Args:
        directory: The directory; nothing is reported if it does not exist.
        logger: Name of the logger.
    """
    try:
        mode = stat.S_IMODE(directory.stat().st_mode)
        volume = "KUBERNETES_SERVICE_HOST" in os.environ and directory.is_mount()
    except FileNotFoundError:
        return
    if mode & MASK and not volume:
        structlog.get_logger(logger).warning(
            "the state directory is open to other users",
            path=str(directory),
            mode=f"{mode:04o}",
            remedy=f"chmod -R go-rwx {shlex.quote(str(directory))}",
        )
