"""Processor time that a container has used."""

from __future__ import annotations

import contextlib
from pathlib import Path

_GROUP = Path("/sys/fs/cgroup")
"""Where a container sees its own control group."""


def container_seconds() -> float | None:
    """Seconds of processor time of all processes of this container; None if the kernel tells none.

    Outside of a container, they are those of the machine, or of what it sees as its root.
    """
    with contextlib.suppress(OSError, ValueError):
        return int((_GROUP / "cpuacct" / "cpuacct.usage").read_text()) / 1e9
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (_GROUP / "cpu.stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec ")) / 1e6
    return None
