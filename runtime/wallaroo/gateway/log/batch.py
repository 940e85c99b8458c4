"""Records of one segment that are yet to be written, and how they are."""

from __future__ import annotations

import dataclasses

from wallaroo.gateway.log.disk import Disk
from wallaroo.gateway.log.records import NoRoom, Part, is_no_room
from wallaroo.gateway.log.segments import Segment

_MOST_BUFFERS = 512
"""Buffers that one call writes; the system takes 1,024."""


@dataclasses.dataclass(slots=True)
class Batch:
    """Records of one segment that are yet to be written."""

    segment: Segment
    at: int
    """Where in the file they begin."""
    buffers: list[Part] = dataclasses.field(default_factory=list)
    length: int = 0

    def write(self, disk: Disk) -> None:
        """Write them; if there is no room, all of them can be written again.

        Raises:
            NoRoom: There is none.
            OSError: The disk fails.
        """
        pwritev, descriptor, at = disk.pwritev, self.segment.descriptor, self.at
        buffers: list[Part] = self.buffers
        try:
            if len(buffers) <= _MOST_BUFFERS:
                done = pwritev(descriptor, buffers, at)
                if done == self.length:
                    return
                at, buffers = at + done, _behind(buffers, done)
            while buffers:
                done = pwritev(descriptor, buffers[:_MOST_BUFFERS], at)
                at, buffers = at + done, _behind(buffers, done)
        except OSError as error:
            if not is_no_room(error):
                raise
            raise NoRoom(error.errno, error.strerror, str(self.segment.file)) from error


def _behind(buffers: list[Part], done: int) -> list[Part]:
    """What is left of *buffers* after their first *done* bytes.

    Example:
        >>> [bytes(part) for part in _behind([b"abc", b"def", b"ghi"], 4)]
        [b'ef', b'ghi']
    """
    for index, part in enumerate(buffers):
        if done < len(part):
            return [memoryview(part)[done:], *buffers[index + 1 :]]
        done -= len(part)
    return []
