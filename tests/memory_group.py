"""A control group of the kernel with a limit of memory, in which the OOM killer is at work."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import wait_until

_ROOT = Path("/sys/fs/cgroup")
_numbers = itertools.count()


class MemoryGroup:
    """A control group.

    Args:
        path: Its directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._limit, self._events = "memory.limit_in_bytes", "memory.oom_control"
        if not (path / self._limit).exists():
            self._limit, self._events = "memory.max", "memory.events"
        for name in ("memory.swappiness", "memory.swap.max"):
            if (path / name).exists():
                (path / name).write_text("0")

    def limit(self, size: int) -> None:
        """Let its processes have *size* bytes together, besides what they had when they came."""
        (self.path / self._limit).write_text(str(size))

    def add(self, pid: int) -> None:
        """Move the process *pid*, and the children that it will have."""
        (self.path / "cgroup.procs").write_text(str(pid))

    @property
    def kills(self) -> int:
        """How many of its processes the kernel has killed for lack of memory."""
        lines = (self.path / self._events).read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self) -> None:
        """Kill what is left in it, and remove it."""
        for pid in (self.path / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        wait_until(lambda: not (self.path / "cgroup.procs").read_text(), "the end of its processes")
        self.path.rmdir()


@contextlib.contextmanager
def memory_group() -> Iterator[MemoryGroup]:
    """A new control group, removed at the end; skips the test where none can be made."""
    parent = _ROOT / "memory" if (_ROOT / "memory/memory.limit_in_bytes").exists() else _ROOT
    path = parent / f"wallaroo-test-{os.getpid()}-{next(_numbers)}"
    try:
        group = MemoryGroup(path)
        group.limit(1 << 30)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        pytest.skip(f"control groups of memory can be made by root alone: {error}")
    try:
        yield group
    finally:
        group.remove()
