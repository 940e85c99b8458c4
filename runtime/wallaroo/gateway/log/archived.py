"""Segments in an archive, read one after the other."""

from __future__ import annotations

import contextlib
from pathlib import Path

from wallaroo.gateway.log.archive import archived, extracted, head_of
from wallaroo.gateway.log.segments import Head


class _Extracting:
    """Extracts the segment that is read, and forgets the one before.

    Args:
        stack: Closes the last one.
    """

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._opened = stack.enter_context(contextlib.ExitStack())
        self._file: Path | None = None
        self._descriptor = -1

    def descriptor(self, file: Path) -> int:
        if file != self._file:
            self._opened.close()
            self._file = None
            self._descriptor = self._opened.enter_context(extracted(file)).fileno()
            self._file = file
        return self._descriptor


class ArchivedSegment:
    """A segment in an archive, which is extracted once it is read.

    Args:
        file: Its file there.
        first: Number of its first record.
        extracting: Extracts it.
    """

    def __init__(self, file: Path, first: int, extracting: _Extracting) -> None:
        self.file, self.first, self._extracting = file, first, extracting

    @property
    def descriptor(self) -> int:
        """A descriptor that is open until another segment is read.

        Raises:
            DamagedFile: It is not what was archived.
        """
        return self._extracting.descriptor(self.file)


def archived_before(
    following: Head, archive: Path, stack: contextlib.ExitStack
) -> list[ArchivedSegment]:
    """The segments in an *archive* that are before another one, from the oldest one on.

    Args:
        following: Head of the segment behind them.
        archive: The directory.
        stack: Closes what is opened.

    Raises:
        DamagedFile: The head of one of them cannot be read.
    """
    files, extracting = archived(archive, following.name), _Extracting(stack)
    found: list[ArchivedSegment] = []
    while following.previous:
        for file in files.get(following.previous, ()):
            head = head_of(file)
            if head is not None and head.address == following.previous_address:
                found.insert(0, ArchivedSegment(file, head.first, extracting))
                following = head
                break
        else:
            break
    return found
