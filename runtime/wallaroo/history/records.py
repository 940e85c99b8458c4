"""Records of a log that may be in use, to its present end or as they are appended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wallaroo.errors import RESTORE, DamagedFile, RuntimeFailure
from wallaroo.gateway.contents import tables_in
from wallaroo.gateway.entries import NOTED, noted_in
from wallaroo.gateway.log.records import MOST_NUMBER, SNAPSHOT, Record
from wallaroo.gateway.log.scan import FollowedLog, scan
from wallaroo.gateway.marks import read_mark
from wallaroo.gateway.numbering import Renumbering
from wallaroo.gateway.store import FORMAT


def records(
    directory: Path, end: int = MOST_NUMBER, archive: Path | None = None, since: int = 0
) -> Iterator[Record]:
    """The records of the log in a directory, from the oldest one up to the number *end*.

    Args:
        directory: The directory of the log.
        end: Number of the last record.
        archive: Where older ones have been archived; None for nowhere.
        since: Offset of the oldest message that is needed; older ones are left out if that is
            simple, and the archive if it is not needed.

    Raises:
        DamagedFile: Some are not as they were written.
        RuntimeFailure: Another version of wallaroo has written them.
    """
    mark = read_mark(directory)  # first: the log grows
    number = 0
    reaches = _reaching(since) if since else None
    scanned = scan(directory, kept=True, archive=archive, reaches=reaches)
    with contextlib.closing(scanned) as found:  # type: ignore[type-var]
        for record in _of_this_format(directory, found):
            number = record.number
            if number > end:
                return
            yield record
    if mark is not None and number < mark.record <= end:
        problem = f"its records {number + 1} to {mark.record} are missing"
        msg = f"{directory} is damaged: {problem}; {RESTORE}"
        raise DamagedFile(msg)


@contextlib.contextmanager
def followed(
    directory: Path, waits: Callable[[], bool], archive: Path | None = None
) -> Iterator[Callable[[int], Iterator[Record]]]:
    """The records of the log in a directory, and those that are appended meanwhile.

    From now on they stay, until they have been read. The block gets a function that yields them,
    and those before them if they do not begin early enough for the offset of a message.

    Args:
        directory: The directory of the log.
        waits: Called when there are no more for now; returns False to end.
        archive: Where older ones have been archived; None for nowhere.
    """
    with FollowedLog(directory, waits, archive) as log:
        yield lambda since: _of_this_format(directory, log.records(_reaching(since)))


def beginning_with(record: Record) -> int:
    """Offset from which on a log that begins with *record* has all messages."""
    if record.kind != SNAPSHOT:
        return 0
    end: int = tables_in(bytes(record.payload))["journal"]["end"]
    return end


def _reaching(since: int) -> Callable[[Record], bool]:
    """Whether a log that begins with a record has all messages from the offset *since* on."""
    return lambda record: beginning_with(record) <= since


def names_from(record: Record, before: Renumbering) -> Renumbering:
    """The names of sources and sinks that hold from *record* on, and *before* it."""
    found = None
    if record.kind == SNAPSHOT:
        found = tables_in(bytes(record.payload)).get("names")
    elif record.kind == NOTED:
        found = noted_in(record.payload).get("names")
    return before if found is None else Renumbering.naming(found)


def _of_this_format(directory: Path, found: Iterable[Record]) -> Iterator[Record]:
    """The records *found*, of which the first one of each segment says their format."""
    for record in found:
        if record.kind == SNAPSHOT:
            written = tables_in(bytes(record.payload))["format"]
            if written != FORMAT:
                reads = f"this version of wallaroo reads format {FORMAT}"
                msg = f"{directory} has format {written}, and {reads}"
                raise RuntimeFailure(msg)
        yield record
