"""Segments, the files of the log.

The head of a segment connects it with the one before. It is written twice, one copy after the
other, as nothing can be read without it.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.log.disk import Disk, content

_MAGIC = b"wallalog"
_VERSION = 1
_LAYOUT = struct.Struct("<8sI16sQQQQII")
HEAD_BYTES = 2 * _LAYOUT.size
"""Length of a head; the first record follows it."""
NAME_BYTES = 16
"""Length of the name of a log."""
_KEPT, _LEAVING = "kept-", "leaving-"
_PREFIX, _SPARE, _DIGITS = "log-", "spare-", 16


class Head(NamedTuple):
    """What the head of a segment says."""

    name: bytes
    """Random name of the log."""
    first: int
    """Number of the first record."""
    address: int
    """Address of the first record."""
    previous: int
    """Number of the first record of the segment before; 0 in the first one of a log."""
    previous_address: int
    """Its address."""
    chain: int
    """Checksum of the record before the first one."""

    def pack(self) -> bytes:
        """Return the bytes of the head."""
        copy = _LAYOUT.pack(_MAGIC, _VERSION, *self, 0)[:-4]
        return (copy + crc32(copy).to_bytes(4, "little")) * 2


def parsed_head(data: bytes | bytearray, file: Path) -> Head | None:
    """Return the head with which the bytes of a *file* begin; None if neither copy is whole.

    Raises:
        RuntimeFailure: Another version of the package has written it.
    """
    for at in (0, _LAYOUT.size):
        copy = bytes(data[at : at + _LAYOUT.size])
        if len(copy) < _LAYOUT.size or crc32(copy[:-4]) != int.from_bytes(copy[-4:], "little"):
            continue
        magic, version, *fields, _ = _LAYOUT.unpack(copy)
        if magic != _MAGIC:
            continue
        if version != _VERSION:
            msg = f"{file} has format {version}; this version of Wallaroo reads {_VERSION}"
            raise RuntimeFailure(msg)
        return Head(*fields)
    return None


@dataclasses.dataclass(slots=True)
class Segment:
    """A segment of an open log.

    Attributes:
        file: Its file.
        head: Its head.
        descriptor: Open while records are written to it; -1 before and afterwards.
    """

    file: Path
    head: Head
    descriptor: int = -1


def segment_file(directory: Path, first: int) -> Path:
    """The file of the segment whose first record has the number *first*.

    Example:
        >>> segment_file(Path("state/log"), 300)
        PosixPath('state/log/log-000000000000012c')
    """
    return directory / f"{_PREFIX}{first:0{_DIGITS}x}"


def first_number(name: str) -> int | None:
    """The number of the first record in the segment with a file *name*; None if it is of none.

    Example:
        >>> first_number("log-000000000000012c"), first_number("spare-5b"), first_number("log-1")
        (300, None, None)
    """
    digits = name.removeprefix(_PREFIX)
    if not name.startswith(_PREFIX) or len(digits) != _DIGITS or digits.strip("0123456789abcdef"):
        return None
    return int(digits, 16)


def new_spare(directory: Path) -> Path:
    """A file for a segment that is going to begin."""
    return directory / f"{_SPARE}{os.urandom(4).hex()}"


def is_spare(name: str) -> bool:
    """Whether a file *name* is that of a file for a segment that is going to begin."""
    return name.startswith(_SPARE)


def kept_file(file: Path) -> Path:
    """The file of a segment that was in *file* and is kept after its release.

    Example:
        >>> kept_file(Path("state/log/log-000000000000012c"))
        PosixPath('state/log/kept-000000000000012c')
    """
    return file.with_name(_KEPT + file.name.removeprefix(_PREFIX))


def leaving_file(file: Path) -> Path:
    """The file of a segment that was kept in *file* and waits for the archive.

    Example:
        >>> leaving_file(Path("state/log/kept-000000000000012c"))
        PosixPath('state/log/leaving-000000000000012c')
    """
    return file.with_name(_LEAVING + file.name[-_DIGITS:])


def leaving_files(names: Iterable[str], directory: Path) -> list[tuple[int, Path]]:
    """Of the segments that wait for the archive, the numbers of their first records, and files.

    Args:
        names: Names of files in the directory of the log.
        directory: That directory.
    """
    return sorted(
        (int(name.removeprefix(_LEAVING), 16), directory / name)
        for name in names
        if name.startswith(_LEAVING)
    )


def kept_segments(
    disk: Disk, directory: Path, following: Head
) -> tuple[list[tuple[int, Path]], list[Path], Head]:
    """Files of the segments that are kept after their release, or wait for the archive.

    Args:
        disk: The disk.
        directory: The directory of the log.
        following: Head of the oldest segment that is not released.

    Returns:
        Of each segment before that one, from the oldest one on, the number of its first record and
        its file; other files, with a gap behind them; and the head of the oldest segment.
    """
    prefixes = (_LEAVING, _KEPT)
    files = {directory / name for name in disk.names(directory) if name.startswith(prefixes)}
    found: list[tuple[int, Path]] = []
    while True:
        kept = kept_file(segment_file(directory, following.previous))
        file = next((one for one in (kept, leaving_file(kept)) if one in files), None)
        if file is None:
            break
        try:
            descriptor = disk.open(file)
        except FileNotFoundError:  # it is removed meanwhile
            break
        head = parsed_head(content(disk, descriptor, HEAD_BYTES), file)
        disk.close(descriptor)
        if head is None:
            break
        files.remove(file)
        found.insert(0, (following.previous, file))
        following = head
    return found, sorted(files, key=lambda one: one.name[-_DIGITS:]), following


def is_leaving(file: Path) -> bool:
    """Whether the segment in *file* waits for the archive."""
    return file.name.startswith(_LEAVING)
