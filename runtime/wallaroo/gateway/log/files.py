"""The files of segments: one that is removed becomes the next one, as new files cost more."""

from __future__ import annotations

from pathlib import Path

from wallaroo.gateway.log.disk import Disk, write_all
from wallaroo.gateway.log.records import HEADER, NoRoom, is_no_room
from wallaroo.gateway.log.segments import Segment, new_spare

_MOST_SPARE = 2
"""A file that is that many times as long as a segment is not kept for another one."""


class SegmentFiles:
    """Makes and removes files of segments.

    Args:
        disk: The disk.
        directory: The directory of the log.
        segment_bytes: Length of a segment, roughly.
    """

    def __init__(self, disk: Disk, directory: Path, segment_bytes: int) -> None:
        self._disk, self._directory, self._segment_bytes = disk, directory, segment_bytes
        self._spare: Path | None = None

    def make(self, segment: Segment) -> int:
        """Write the head of a segment to a file, and give it its name; returns its descriptor.

        Raises:
            NoRoom: The disk is full.
            OSError: The disk fails.
        """
        descriptor = -1
        # no record of an earlier segment may seem to be its first one
        head = segment.head.pack() + bytes(HEADER.size)
        try:
            if self._spare is None:
                spare = new_spare(self._directory)
                descriptor = self._disk.create(spare)
                self._spare = spare
            else:
                descriptor = self._disk.open(self._spare, writable=True)
            write_all(self._disk, descriptor, head, 0)
            self._disk.fdatasync(descriptor)
            self._disk.rename(self._spare, segment.file)
        except OSError as error:
            if descriptor >= 0:
                self._disk.close(descriptor)
            if not is_no_room(error):
                raise
            # what is in it after a failed sync is unknown
            if self._spare is not None:
                self._disk.unlink(self._spare)
                self._spare = None
            raise NoRoom(error.errno, error.strerror, str(segment.file)) from error
        self._spare = None
        self._disk.sync_directory(self._directory)
        return descriptor

    def remove(self, file: Path) -> None:
        """Remove the file of the oldest segment, or keep it for one that is going to begin.

        Its name is gone for good before it is written to, and before that of the next one goes.
        """
        descriptor = self._disk.open(file)
        try:
            # a segment that is being scanned must stay as it is
            if (
                self._spare is None
                and self._disk.size(descriptor) <= _MOST_SPARE * self._segment_bytes
                and self._disk.lock(descriptor, shared=False)
            ):
                self._spare = new_spare(self._directory)
                self._disk.rename(file, self._spare)
            else:
                self._disk.unlink(file)
            self._disk.sync_directory(self._directory)
        finally:
            self._disk.close(descriptor)
