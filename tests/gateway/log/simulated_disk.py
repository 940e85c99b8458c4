"""A disk in memory that can be full, and can lose, tear and reorder what was not synced."""

from __future__ import annotations

import errno
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from wallaroo.gateway.log.disk import Disk
from wallaroo.gateway.log.records import Part


class Crash(Exception):
    """The machine fails; what comes of its disk says `SimulatedDisk.after_crash`."""


class File:
    """A file: what is surely on disk, what was done to it since, and what a process sees."""

    def __init__(self, data: bytes = b"") -> None:
        self.durable = data
        self.pending: list[tuple[int, bytes] | int] = []
        self.seen = bytearray(data)
        self.locks: list[tuple[int, bool]] = []
        self.time = 0

    def write(self, data: bytes, offset: int) -> None:
        self.seen.extend(bytes(max(0, offset - len(self.seen))))
        self.seen[offset : offset + len(data)] = data
        self.pending.append((offset, data))

    def after_crash(self, rng: random.Random, sector: int, kept: float, *, garbage: bool) -> bytes:
        """What is there if each sector of each write is on disk with the probability *kept*."""
        data = bytearray(self.durable)
        for change in self.pending:
            if isinstance(change, int):
                if rng.random() < kept:
                    del data[change:]
                continue
            offset, written = change
            at = 0
            while at < len(written):
                end = min(len(written), at + sector - (offset + at) % sector)
                if rng.random() < kept:
                    place = offset + at
                    missing = max(0, place - len(data))
                    data.extend(rng.randbytes(missing) if garbage else bytes(missing))
                    data[place : place + end - at] = written[at:end]
                at = end
        if len(data) < len(self.seen) and rng.random() < 0.5:
            # its length was written, and not what is in it
            data.extend(bytes(len(self.seen) - len(data)))
        return bytes(data)


class SimulatedDisk(Disk):
    """A disk with one directory.

    Args:
        names: Files on it.
        capacity: How many bytes there is room for.
    """

    def __init__(self, names: dict[str, File] | None = None, capacity: int | None = None) -> None:
        self.names_seen = dict(names or {})
        self.names_durable = dict(self.names_seen)
        self.name_changes: list[tuple[File, str | None, str | None]] = []
        self.capacity = capacity
        self.crash_in: int | None = None
        """How many calls are made before the machine fails; None if it does not."""
        self.crashed_at = ""
        self.calls: Counter[str] = Counter()
        self._descriptors: dict[int, File] = {}
        self._numbers = itertools.count(3)

    # what the log calls

    def make_directory(self, directory: Path) -> None:
        pass

    def names(self, directory: Path) -> list[str]:  # noqa: ARG002
        return list(self.names_seen)

    def create(self, file: Path) -> int:
        self._called("create")
        assert file.name not in self.names_seen
        self.names_seen[file.name] = File()
        self.name_changes.append((self.names_seen[file.name], None, file.name))
        return self.open(file)

    def open(self, file: Path, *, writable: bool = False) -> int:  # noqa: ARG002
        if file.name not in self.names_seen:
            raise FileNotFoundError(errno.ENOENT, "missing", str(file))
        number = next(self._numbers)
        self._descriptors[number] = self.names_seen[file.name]
        return number

    def duplicate(self, descriptor: int) -> int:
        number = next(self._numbers)
        self._descriptors[number] = self._descriptors[descriptor]
        return number

    def close(self, descriptor: int) -> None:
        file = self._descriptors.pop(descriptor)
        file.locks = [lock for lock in file.locks if lock[0] != descriptor]

    def size(self, descriptor: int) -> int:
        return len(self._descriptors[descriptor].seen)

    def time(self, descriptor: int) -> int:
        return self._descriptors[descriptor].time

    def set_time(self, descriptor: int, ns: int) -> None:
        self._descriptors[descriptor].time = ns

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        self.calls["pread"] += 1
        return bytes(self._descriptors[descriptor].seen[offset : offset + length])

    def pwritev(  # type: ignore[override]
        self, descriptor: int, buffers: Sequence[Part], offset: int
    ) -> int:
        self._called("pwritev")
        assert 0 < len(buffers) <= 1024
        file, data = self._descriptors[descriptor], b"".join(buffers)
        assert data
        if self.capacity is not None:
            more = offset + len(data) - len(file.seen)
            if more > (free := self.free()):
                data = data[: len(data) - more + free]
                if not data:
                    raise OSError(errno.ENOSPC, "the disk is full")
                self.calls["cut short"] += 1
        file.write(data, offset)
        return len(data)

    def truncate(self, descriptor: int, length: int) -> None:
        self._called("truncate")
        file = self._descriptors[descriptor]
        assert length <= len(file.seen)
        del file.seen[length:]
        file.pending.append(length)

    def fdatasync(self, descriptor: int) -> None:  # type: ignore[override]
        self._called("fdatasync")
        file = self._descriptors[descriptor]
        file.durable = bytes(file.seen)
        file.pending.clear()

    def rename(self, file: Path, other: Path) -> None:
        self._called("rename")
        assert other.name not in self.names_seen
        renamed = self.names_seen[other.name] = self.names_seen.pop(file.name)
        self.name_changes.append((renamed, file.name, other.name))

    def unlink(self, file: Path) -> None:
        self._called("unlink")
        self.name_changes.append((self.names_seen.pop(file.name), file.name, None))

    def sync_directory(self, directory: Path) -> None:  # noqa: ARG002
        self._called("sync_directory")
        self.names_durable = dict(self.names_seen)
        self.name_changes.clear()

    def is_at(self, descriptor: int, file: Path) -> bool:
        return self.names_seen.get(file.name) is self._descriptors[descriptor]

    def lock(self, descriptor: int, *, shared: bool) -> bool:
        locks = self._descriptors[descriptor].locks
        if any(not (shared and other) for _, other in locks):
            return False
        locks.append((descriptor, shared))
        return True

    # what the tests call

    @property
    def open_files(self) -> int:
        return len(self._descriptors)

    def used(self) -> int:
        """How many bytes all files have."""
        return sum(len(file.seen) for file in self.names_seen.values())

    def kept_bytes(self) -> int:
        """How many bytes the files of segments have that are kept after their release."""
        files = self.names_seen.items()
        return sum(len(file.seen) for name, file in files if name.startswith("kept-"))

    def free(self) -> int:
        """How many bytes there is room for."""
        return 1 << 40 if self.capacity is None else max(0, self.capacity - self.used())

    def after_crash(self, rng: random.Random) -> Self:
        """The disk as it may be after a power failure."""
        sector = rng.choice((8, 16, 64, 512))
        kept = rng.choice((0.0, 0.5, 0.8, 0.95, 1.0))
        garbage = rng.random() < 0.3
        names = dict(self.names_durable)
        stuck: list[File] = []
        for file, before, after in self.name_changes:
            # those of one file in order
            if any(file is one for one in stuck) or rng.random() < 0.5:
                stuck.append(file)
                continue
            if before is not None:
                del names[before]
            if after is not None:
                names[after] = file
        found: dict[str, File] = {}
        for name, file in names.items():
            found[name] = File(file.after_crash(rng, sector, kept, garbage=garbage))
            found[name].time = file.time
        return type(self)(found)

    def after_kill(self) -> Self:
        """The disk as the next process sees it if only the process is killed."""
        disk = type(self)(self.names_seen)
        disk.names_durable = self.names_durable
        disk.name_changes = self.name_changes
        for file in self.names_seen.values():
            file.locks.clear()
        return disk

    def copy(self) -> SimulatedDisk:
        """The same files on another disk."""
        return SimulatedDisk(
            {name: File(bytes(file.seen)) for name, file in self.names_seen.items()}
        )

    def _called(self, name: str) -> None:
        self.calls[name] += 1
        if self.crash_in is not None:
            if self.crash_in == 0:
                self.crashed_at = name
                raise Crash
            self.crash_in -= 1
