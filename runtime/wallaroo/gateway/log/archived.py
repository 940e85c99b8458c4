"""Segments in an archive, read one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

from wallaroo.errors import DamagedFile
from wallaroo.gateway.log.archive import REMEDY, archived, extracted, head_of
from wallaroo.gateway.log.records import ANY, Extent, Walk
from wallaroo.gateway.log.segments import HEAD_BYTES, Head
from wallaroo.system.object_store import is_stored


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
    following: Head,
    archive: Path,
    reaches: Callable[[ArchivedSegment], bool] | None,
    stack: contextlib.ExitStack,
) -> tuple[list[ArchivedSegment], str | None]:
    """The segments in an *archive* that are before another one, from the oldest one on.

    Also what is missing before them, if there are older ones.

    Args:
        following: Head of the segment behind them.
        archive: The directory, or folder of an object store.
        reaches: Whether nothing is needed that is older than a segment; None if all is needed.
        stack: Closes what is opened.

    Raises:
        DamagedFile: One of them is not what was archived, as far as it is read.
    """
    files, extracting = archived(archive, following.name), _Extracting(stack)
    found: list[ArchivedSegment] = []
    look_at = 1
    while following.previous:
        before = _before(following, files.get(following.previous, ()))
        if before is None:
            break
        file, following = before
        found.insert(0, ArchivedSegment(file, following.first, extracting))
        if reaches is not None and len(found) == look_at:  # all of it is read for that
            if reaches(found[0]):
                return found, None
            look_at *= 2
    if following.previous and not files and is_stored(archive):  # a directory would be there
        return found, f"all before record {following.first}: it has no file of this log"
    unused = sum(len(files[first]) for first in files if first < following.first)
    if not following.previous or not unused:
        return found, None
    name = f"{following.name.hex()}-{following.previous:016x}-….zst"
    missing = f"records {following.previous} to {following.first - 1}, which were in {name}"
    return found, f"{missing}; older files that are not used for this: {unused}"


def misleading(files: Sequence[Path], first: int) -> DamagedFile:
    """The error that *files* are in the place of the one before the record *first*."""
    msg = (
        f"{' and '.join(map(str, files))} cannot be used: its records do not lead to record "
        f"{first}, with which the next file of the log begins; a copy of the log that was "
        f"continued separately has written it, or it was changed; {REMEDY}"
    )
    return DamagedFile(msg)


def _before(following: Head, files: Sequence[Path]) -> tuple[Path, Head] | None:
    """Of *files* of one segment, the one that leads to the segment behind it, and its head."""
    found: list[tuple[Path, Head]] = []
    damaged: DamagedFile | None = None
    for file in files:
        try:
            head = head_of(file)
        except DamagedFile as error:
            damaged = error
        else:
            if head.address == following.previous_address:
                found.append((file, head))
    several = found
    if len(found) > 1 or damaged is not None:  # a single one shows when it is read
        found = [one for one in found if _leads_to(following, *one)]
    if damaged is not None and not found:
        raise damaged
    if several and not found:
        raise misleading([file for file, _ in several], following.first)
    return found[0] if found else None


def _leads_to(following: Head, file: Path, head: Head) -> bool:
    """Whether the segment in a *file* ends where another one begins."""
    try:
        with extracted(file) as stream:
            stream.seek(0)
            extent = Extent(stream.read(), crc32(head.name), head.address - HEAD_BYTES)
    except DamagedFile:
        return False
    walk = Walk(extent, at=HEAD_BYTES, number=head.first, chain=head.chain, stop=following.first)
    for _ in walk:
        pass
    is_end = (walk.number, walk.at + extent.shift) == (following.first, following.address)
    return is_end and walk.chain in {following.chain, ANY}
