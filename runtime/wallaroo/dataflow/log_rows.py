"""Rows of the state store for a bucket's log: large records take several.

Spark's Java holds a row in memory, several times. A record has all entities of the bucket that an
epoch has changed, so it can be larger than Java's heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

ROW_BYTES = 256 * 1024
"""Size of the rows of a record but the last. Logs depend on it."""
BASE = -1
"""Place of the record of all entities, which is before all others."""
_NEXT_PART = 1 << 40
"""Added to the place of a record for each further row."""


class LogRow(NamedTuple):
    """A row of a log."""

    place: int
    """The index of the record, and how many rows of it come before, in one number."""
    content: bytes
    """A part of the record."""

    @property
    def record(self) -> int:
        """Index of the record."""
        return (self.place - BASE) % _NEXT_PART + BASE


def rows_of(index: int, record: bytes) -> Iterator[LogRow]:
    """The rows of a record.

    Args:
        index: Index of the record, or `BASE`.
        record: The record; none has no rows.

    Example:
        >>> rows = list(rows_of(7, b"x" * ROW_BYTES + b"yz"))
        >>> [(row.record, len(row.content)) for row in rows]
        [(7, 262144), (7, 2)]
    """
    for part, start in enumerate(range(0, len(record), ROW_BYTES)):
        yield LogRow(index + part * _NEXT_PART, record[start : start + ROW_BYTES])


def count_rows(record: bytes) -> int:
    """How many rows `rows_of` yields."""
    return -(-len(record) // ROW_BYTES)


def records_in(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """The records of a log in order, whatever the order of its *rows*.

    A record of which a row is missing does not match its checksum.

    Example:
        >>> rows = [*rows_of(0, b"x" * ROW_BYTES + b"y"), *rows_of(1, b"z"), *rows_of(BASE, b"b")]
        >>> [len(record) for record in records_in(reversed(rows))]
        [1, 262145, 1]
    """
    in_order = sorted(
        (LogRow(place, content) for place, content in rows),
        key=lambda row: (row.record, row.place),
    )
    for _, parts in groupby(in_order, key=lambda row: row.record):
        contents = [part.content for part in parts]
        yield contents[0] if len(contents) == 1 else b"".join(contents)
