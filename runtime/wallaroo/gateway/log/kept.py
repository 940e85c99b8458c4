"""Segments that are kept after their release, for other processes to read."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wallaroo.gateway.log.disk import Disk
from wallaroo.gateway.log.segments import (
    Head,
    is_leaving,
    kept_file,
    kept_segments,
    leaving_file,
    leaving_files,
)

MOST_WAITING = 16
"""Segments that wait for the archive at most, besides those that wait when the log is opened; then
the oldest goes without."""
_WAIT_S = 1.0
"""Seconds until a segment that is too old is looked at again, if so many wait."""


class Keep(NamedTuple):
    """What is kept of a log after its release: the newest segments, within both limits."""

    size_bytes: int = 0
    """Bytes of all segments together; 0 to keep none."""
    age_s: float = 0.0
    """Seconds after its last record when a segment goes; 0 for no limit."""
    archives: bool = False
    """Whether another process archives what goes, which waits for it under another name."""
    clock: Callable[[], int] = time.time_ns
    """The clock by which they age, in nanoseconds since the Unix epoch."""


class _Kept(NamedTuple):
    file: Path
    size: int
    ended_ns: int
    """When the last record was written to it."""


class KeptSegments:
    """The segments of a log that are kept, which age even if nothing is appended.

    Args:
        disk: The disk.
        directory: The directory of the log.
        keep: What is kept.
        remove: Removes the file of a segment, or uses it for another one.
    """

    def __init__(
        self, disk: Disk, directory: Path, keep: Keep, remove: Callable[[Path], None]
    ) -> None:
        self._disk, self._directory, self._keep, self._remove = disk, directory, keep, remove
        self._segments: deque[_Kept] = deque()
        """From the oldest one on."""
        self._leaving: deque[Path] = deque()
        """Files of those that wait for the archive, or have been archived since."""
        self.most_waiting = MOST_WAITING
        """How many may wait."""
        self.lost = 0
        """How many went without having been archived."""

    def __bool__(self) -> bool:
        """Whether segments are kept."""
        return self._keep.size_bytes > 0 or self._keep.archives

    @property
    def waiting(self) -> int:
        """How many segments wait for the archive; for any thread."""
        return len(leaving_files(self._disk.names(self._directory), self._directory))

    def find(self, following: Head) -> None:
        """Find what an earlier process has kept before a segment; remove what is too much."""
        found, others, _ = kept_segments(self._disk, self._directory, following)
        self.most_waiting = len(found) + len(others)  # the disk has room for them
        for file in (*others, *(file for _, file in found)):
            if is_leaving(file) and self._keep.archives:
                self._leaving.append(file)
            elif is_leaving(file) or file in others:
                self._let_go(file)
            else:
                self._append(file)
        self._bound()
        self.most_waiting = MOST_WAITING + len(self._leaving)

    def end(self, descriptor: int) -> None:
        """Note on the disk that the last record has been written to a segment."""
        if self._keep.age_s:
            self._disk.set_time(descriptor, self._keep.clock())

    def add(self, file: Path) -> None:
        """Keep the oldest segment, which is in *file* and is released."""
        kept = kept_file(file)
        self._disk.rename(file, kept)
        self._disk.sync_directory(self._directory)
        self._append(kept)
        self._bound()

    def forget_oldest(self) -> bool:
        """Remove the oldest segment, archived or not; returns whether there was one."""
        if self.waits(1):
            self._lose(self._leaving.popleft())
        elif self._segments:
            self._lose(self._segments.popleft().file)
        else:
            return False
        return True

    def expire(self) -> float | None:
        """Let the oldest segment go if it is too old.

        Returns:
            Seconds until the next one is, by the present clock; None if there is none.
        """
        if self._keep.age_s and self._segments and self._left_s() <= 0:
            if self.waits(MOST_WAITING):
                return _WAIT_S
            self._let_go(self._segments.popleft().file)
        return self._left_s() if self._keep.age_s and self._segments else None

    def waits(self, number: int) -> bool:
        """Whether at least this *number* of segments wait for the archive."""
        if len(self._leaving) >= number:
            there = set(self._disk.names(self._directory))
            while self._leaving and self._leaving[0].name not in there:  # the oldest goes first
                self._leaving.popleft()
        return len(self._leaving) >= number

    def _let_go(self, file: Path) -> None:
        """Let a segment wait for the archive, or remove it if there is none."""
        if not self._keep.archives:
            self._disk.unlink(file)
            return
        leaving = leaving_file(file)
        self._disk.rename(file, leaving)
        self._leaving.append(leaving)
        if self.waits(self.most_waiting + 1):
            self._lose(self._leaving.popleft())

    def _lose(self, file: Path) -> None:
        """Remove a segment, which may just have been archived."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(file)
            self.lost += self._keep.archives

    def _left_s(self) -> float:
        """For how many seconds the oldest segment is kept."""
        return self._keep.age_s - (self._keep.clock() - self._segments[0].ended_ns) / 1e9

    def _append(self, file: Path) -> None:
        descriptor = self._disk.open(file)
        try:
            newest = _Kept(file, self._disk.size(descriptor), self._disk.time(descriptor))
        finally:
            self._disk.close(descriptor)
        if self._segments and self._segments[-1].ended_ns > newest.ended_ns:
            # a clock was wrong: no segment is younger than those behind it
            self._segments = deque(
                one._replace(ended_ns=min(one.ended_ns, newest.ended_ns)) for one in self._segments
            )
        self._segments.append(newest)

    def _bound(self) -> None:
        """Remove the oldest segments, as long as all take more than they may."""
        size = sum(segment.size for segment in self._segments)
        while size > self._keep.size_bytes:
            oldest = self._segments.popleft()
            size -= oldest.size
            if self._keep.archives:
                self._let_go(oldest.file)
            else:
                self._remove(oldest.file)
