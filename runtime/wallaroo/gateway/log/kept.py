"""Segments that are kept after their release, for other processes to read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wallaroo.gateway.log.disk import Disk
from wallaroo.gateway.log.segments import Head, kept_file, kept_segments


class Keep(NamedTuple):
    """What is kept of a log after its release: the newest segments, within both limits."""

    size_bytes: int = 0
    """Bytes of all segments together; 0 to keep none."""
    age_s: float = 0.0
    """Seconds after its last record when a segment goes; 0 for no limit."""
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

    def __bool__(self) -> bool:
        """Whether segments are kept."""
        return self._keep.size_bytes > 0

    def find(self, following: Head) -> None:
        """Find what an earlier process has kept before a segment; remove what is too much."""
        found, others = kept_segments(self._disk, self._directory, following)
        for _, file in found:
            self._append(file)
        for file in others:
            self._disk.unlink(file)
        self._bound()

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
        """Remove the oldest segment; returns whether there was one."""
        if not self._segments:
            return False
        self._disk.unlink(self._segments.popleft().file)
        return True

    def expire(self) -> float | None:
        """Remove the oldest segment if it is too old.

        Returns:
            Seconds until the next one is, by the present clock; None if there is none.
        """
        if self._keep.age_s and self._segments and self._left_s() <= 0:
            self.forget_oldest()
        return self._left_s() if self._keep.age_s and self._segments else None

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
            self._remove(oldest.file)
