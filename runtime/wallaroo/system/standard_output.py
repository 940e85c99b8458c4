"""Standard output for outputs alone: in a gateway, file descriptor 1 belongs to user code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

VARIABLE = "WALLAROO_STDOUT"
"""Environment variable with the number of the file descriptor that a parent process passes on."""
_kept: int | None = None


def keep() -> None:
    """Keep the standard output of this process, or the one that its parent passes on."""
    global _kept  # noqa: PLW0603
    passed = os.environ.pop(VARIABLE, None)
    if passed is not None:
        _kept = int(passed)
    elif sys.__stdout__ is None:  # it was closed before the start, so that 1 may be any file
        _kept = os.open(os.devnull, os.O_WRONLY)
    else:
        _kept = os.dup(1)
    os.set_inheritable(_kept, False)


def passed_on() -> tuple[Sequence[int], dict[str, str]]:
    """What a child process gets that may print outputs: file descriptors, and its environment."""
    if _kept is None:
        return (), dict(os.environ)
    return (_kept,), {**os.environ, VARIABLE: str(_kept)}


def descriptor() -> int:
    """The file descriptor of what was kept, or that of standard output if nothing was."""
    return 1 if _kept is None else _kept
