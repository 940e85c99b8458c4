"""Available memory, and processes that the kernel has killed because it ran out."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_FIRST = 1000
"""The highest adjustment of a process's score: the process that is killed has the highest score."""
_UNLIMITED = 1 << 60
"""A limit of a control group from which on it stands for none, in bytes."""
_LEAST_BYTES = 64 * 1024**2
"""What `limited` leaves at least."""


def to_be_killed_first(pid: int | str = "self") -> None:
    """Let the kernel kill a process, and what it forks, before others when memory runs out.

    The kernel chooses among the processes of a machine, or of a container, by their size. A worker
    is replaced at no loss, whereas without its Java a run ends.
    """
    with contextlib.suppress(OSError):  # not Linux, or a sandbox without it
        (_PROC / f"{pid}/oom_score_adj").write_text(str(_FIRST))


class MemoryKills:
    """Whether the kernel has killed processes since this was made, because memory ran out.

    It counts those of the control group of this process, which is that of its children: a container
    or a service, for instance.

    Example:
        >>> MemoryKills().found()
        False
    """

    def __init__(self) -> None:
        self._before = _kills()

    def found(self) -> bool:
        """Whether it has; False if the kernel does not say."""
        return _kills() > self._before


def available_bytes() -> int | None:
    """Bytes that this process can still use before memory runs out; None if that is not known."""
    found = [_of_machine(), *(_of_group(group) for group in _groups())]
    return min((size for size in found if size is not None), default=None)


@contextlib.contextmanager
def limited(share: float) -> Iterator[int | None]:
    """Within the block, refuse this process more than a *share* of the memory that is available.

    Python raises `MemoryError` then. Processes that are forked in the block have the same limit.

    Yields:
        The limit of what is allocated in the block, in bytes; None if there is none.
    """
    available, used = available_bytes(), _data_bytes()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if available is None or used is None:
        yield None
        return
    limit = max(int(share * available), _LEAST_BYTES)
    with contextlib.suppress(OSError, ValueError):  # the process has a lower limit already
        resource.setrlimit(resource.RLIMIT_DATA, (used + limit, before[1]))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _of_machine() -> int | None:
    return _kib(_PROC / "meminfo", "MemAvailable:")


def _data_bytes() -> int | None:
    """Bytes that count towards the limit of `limited`."""
    return _kib(_PROC / "self/status", "VmData:")


def _kib(file: Path, name: str) -> int | None:
    number = _numbers(file).get(name)
    return None if number is None else number * 1024


def _of_group(group: Path) -> int | None:
    """Bytes that the control group in *group* can still use; None if it has no limit."""
    for limit, usage, inactive in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, used = _number(group / limit), _number(group / usage)
        if most is not None and used is not None and most < _UNLIMITED:
            # files in the cache that nothing has used again are dropped first
            return max(0, most - used + _numbers(group / "memory.stat").get(inactive, 0))
    return None


def _kills() -> int:
    for group in _groups():
        for name in ("memory.events", "memory.oom_control"):
            if (count := _numbers(group / name).get("oom_kill")) is not None:
                return count
    return 0


def _groups() -> Iterator[Path]:
    """The control groups that limit the memory of this process, the innermost one first."""
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                root = _GROUPS
            elif "memory" in controllers.split(","):
                root = _GROUPS / "memory"
            else:
                continue
            inner = root / path.lstrip("/")
            if not inner.exists():  # a container sees its own group as the root
                inner = root
            for group in (inner, *inner.parents):
                if (group / "memory.stat").exists():
                    yield group
                if group == root:
                    break


def _numbers(file: Path) -> Mapping[str, int]:
    """The numbers in a file of the kernel with a name and a number on each line."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in file.read_text().splitlines():
            name, number, *_ = [*line.split(), "", ""]
            if number.isdigit():
                found[name] = int(number)
    return found


def _number(file: Path) -> int | None:
    """The number in *file*; None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text())
    return None
