"""The kernel's OOM killer ends a process: in a cgroup of its own, it gets no more memory."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos.groups import Fault, Group
from tests.chaos.system import System
from tests.helpers import wait_until

_ROOT = Path("/sys/fs/cgroup")
_LIMIT_BYTES = 0
"""What a process may still take."""
_LIMITS = ("memory.max", "memory.limit_in_bytes")
"""Files with the limit, of both versions of cgroups."""
_COUNTS = ("memory.events", "memory.oom_control")
"""Files that tell how often a process was killed."""
_DEATH_S = 60.0
_LOOK_EVERY_S = 0.02


class _Cgroup:
    """A cgroup below that of this process; a context manager.

    Raises:
        OSError: There can be none.
    """

    def __init__(self) -> None:
        self._above = _own()
        self._path = self._above / f"wallaroo-chaos-{os.getpid()}"
        self._path.mkdir(exist_ok=True)

    def __enter__(self) -> _Cgroup:
        return self

    def __exit__(self, *_exc: object) -> None:
        for pid in (self._path / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (self._above / "cgroup.procs").write_text(pid)
        wait_until(self._is_removed, "the end of the cgroup's processes")

    def _is_removed(self) -> bool:
        try:
            self._path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:  # a process that was killed is still ending
            return False
        return True

    def limit(self) -> None:
        """Let its processes have nothing more."""
        _first(self._path, _LIMITS).write_text(str(_LIMIT_BYTES))

    def take(self, pid: int) -> None:
        """Move a process to it."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many of its processes the kernel has killed."""
        for line in _first(self._path, _COUNTS).read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
        return 0


@functools.cache
def lacking() -> str | None:
    """What this machine lacks; None if nothing."""
    try:
        with _Cgroup() as cgroup:
            cgroup.limit()
            cgroup.kills()
    except OSError as error:
        return f"cgroups that limit memory ({error})"
    return None


def _own() -> Path:
    """The cgroup of this process.

    Raises:
        OSError: It has none that could limit memory.
    """
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return _ROOT / controllers / path.lstrip("/")
    return _ROOT / Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")


def _first(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of the files *names* that is there.

    Raises:
        OSError: None is.
    """
    for name in names:
        if (folder / name).exists():
            return folder / name
    msg = f"{folder} has neither {' nor '.join(names)}"
    raise OSError(msg)


def _starving(kinds: Callable[[System, random.Random], list[int]]) -> Fault:
    """Processes get no more memory until the kernel has killed one."""

    def starve(system: System, chance: random.Random) -> bool:
        pids = kinds(system, chance)
        if not pids:
            return False
        with _Cgroup() as cgroup:
            before = cgroup.kills()
            cgroup.limit()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    cgroup.take(pid)
            give_up = time.monotonic() + _DEATH_S
            while cgroup.kills() < before + len(pids) and time.monotonic() < give_up:
                time.sleep(_LOOK_EVERY_S)
            return cgroup.kills() == before + len(pids)

    return starve


def _one(kind: str) -> Callable[[System, random.Random], list[int]]:
    def chosen(system: System, chance: random.Random) -> list[int]:
        pids = system.started(kind)
        return [chance.choice(pids)] if pids else []

    return chosen


MEMORY = Group(
    {
        "no memory for a worker": _starving(_one("worker")),
        "no memory for the gateway": _starving(_one("gateway")),
        "no memory for the driver": _starving(_one("driver")),
        "no memory for Spark's Java": _starving(_one("java")),
        "no memory for the first stage": _starving(_one("reader")),
    },
    lacks=lacking,
)
"""Processes that the kernel kills for want of memory."""
