"""Segments that stay as they are while another process than their owner reads them."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from wallaroo.gateway.log.archived import archived_before
from wallaroo.gateway.log.disk import Disk, content
from wallaroo.gateway.log.segments import (
    HEAD_BYTES,
    Head,
    first_number,
    kept_segments,
    parsed_head,
    segment_file,
)

log = structlog.get_logger("wallaroo.gateway")


class Segment(Protocol):
    """A segment that can be read."""

    @property
    def file(self) -> Path:
        """Its file."""

    @property
    def first(self) -> int:
        """Number of its first record."""

    @property
    def descriptor(self) -> int:
        """A descriptor of its file, or of what is in it."""


class Pinned(NamedTuple):
    """A segment that stays as it is until its descriptor is closed, but may become longer."""

    file: Path
    first: int
    descriptor: int


def pinned_segments(disk: Disk, directory: Path, stack: contextlib.ExitStack) -> list[Pinned]:
    """Open and lock segments, so that the owner uses none of their files again.

    The newest one first: one that is released meanwhile is left out, with all before it.
    """
    pinned: list[Pinned] = []
    while not pinned:
        numbers = [first_number(name) for name in disk.names(directory)]
        firsts = sorted((first for first in numbers if first is not None), reverse=True)
        if not firsts:
            break
        for first in firsts:
            file = segment_file(directory, first)
            if (segment := pin(disk, file, first, stack)) is None:
                break
            pinned.insert(0, segment)
    return pinned


def pin(disk: Disk, file: Path, first: int, stack: contextlib.ExitStack) -> Pinned | None:
    """Open and lock a segment; None if its owner has removed it or uses its file again."""
    try:
        descriptor = disk.open(file)
    except FileNotFoundError:
        return None
    stack.callback(disk.close, descriptor)
    if not disk.lock(descriptor, shared=True) or not disk.is_at(descriptor, file):
        return None
    return Pinned(file, first, descriptor)


def released_before(
    following: Segment,
    directory: Path,
    archive: Path | None,
    reaches: Callable[[Segment], bool] | None,
    disk: Disk,
    stack: contextlib.ExitStack,
) -> list[Segment]:
    """The segments before one of the log: those that are kept, and before them those archived.

    Args:
        following: The segment behind them.
        directory: The directory of the log.
        archive: Where those are that are archived, which is not read unless the others begin too
            late; None for nowhere.
        reaches: Whether nothing is needed that is older than a segment, as is then so of all older
            ones; None if all is needed.
        disk: The disk.
        stack: Closes what is opened.

    Raises:
        DamagedFile: One of those archived is not what was archived.
    """
    if reaches is not None and reaches(following):
        return []
    segments = [*_pinned_kept(disk, directory, following, stack), following]
    missing: str | None = None
    if archive is not None and (reaches is None or not reaches(segments[0])):
        head = _head_of(disk, segments[0])  # what is archived meanwhile is there by now
        if head is not None:
            older, missing = archived_before(head, archive, reaches, stack)
            segments = [*older, *segments]
    late = 0
    if reaches is not None:
        late = bisect_left(segments, x=True, key=lambda segment: not reaches(segment))
        segments = segments[max(0, late - 1) :]
    if missing is not None and not late:
        log.warning("archive incomplete", archive=str(archive), missing=missing)
    return segments[:-1]


def _pinned_kept(
    disk: Disk, directory: Path, following: Segment, stack: contextlib.ExitStack
) -> list[Segment]:
    """Open and lock the segments that are kept, and are before one that is not."""
    head = _head_of(disk, following)
    pinned: list[Segment] = []
    for first, file in reversed([] if head is None else kept_segments(disk, directory, head)[0]):
        if (segment := pin(disk, file, first, stack)) is None:
            break
        pinned.insert(0, segment)
    return pinned


def _head_of(disk: Disk, segment: Segment) -> Head | None:
    return parsed_head(content(disk, segment.descriptor, HEAD_BYTES), segment.file)
