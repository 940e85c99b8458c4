"""Blocks as rows of the journal, each with a checksum of all that it says."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.errors import RESTORE
from wallaroo.gateway.database import DamagedDatabase, checksum
from wallaroo.wire.records import Block

SCHEMA = """
CREATE TABLE IF NOT EXISTS chunk (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, source INTEGER NOT NULL,
    arrived_ns INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL);
"""
COLUMNS = "first, count, source, arrived_ns, data, sum"
INSERT = f"INSERT INTO chunk ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
SKIP = "--skip-damaged"
"""Option that lets an application resume without damaged messages and outputs."""


class Row(NamedTuple):
    """A row of the table `chunk`, in the order of `COLUMNS`."""

    first: int
    messages: int
    source: int
    arrived_ns: int
    data: bytes | bytearray
    sum: int

    def is_intact(self) -> bool:
        """Whether it is as it was written."""
        return self == row_of(*self[:5])


def row_of(first: int, count: int, source: int, arrived_ns: int, data: bytes | bytearray) -> Row:
    """The row of a block."""
    total = checksum(data, first, count, source, arrived_ns)
    return Row(first, count, source, arrived_ns, data, total)


def block_in(row: Sequence[Any], file: Path | str) -> Block:
    """The block in a *row* of the journal in *file*.

    Raises:
        DamagedDatabase: It is not as it was written.
    """
    if not Row(*row).is_intact():
        raise damaged_range(file, row[0], row[0] + max(row[1], 1))
    return Block(*row[:5])


def bytes_before(database: sqlite3.Connection, end: int) -> int:
    """Bytes of the messages in blocks that begin before offset *end*."""
    (size,) = database.execute(
        "SELECT coalesce(sum(length(data)), 0) FROM chunk WHERE first < ?", (end,)
    ).fetchone()
    return int(size)


def damaged_range(
    file: Path | str, start: int, end: int, others: int = 0, *, missing: bool = False
) -> DamagedDatabase:
    """The error that the messages from *start* up to *end*, and *others* more, are damaged."""
    more = f" (and {others} more ranges)" if others else ""
    what = "are missing" if missing else "do not match their checksum"
    problem = f"its messages {start} to {end - 1}{more} {what}"
    remedy = (
        f"{RESTORE}, or start with {SKIP}: the bytes of these messages are kept as dead letters, "
        "and the application resumes without them"
    )
    return DamagedDatabase(file, problem, remedy)


def renumber_sums(database: sqlite3.Connection) -> None:
    """Let the checksums of all blocks be those of their present numbers."""

    def total(first: int, count: int, source: int, arrived_ns: int, data: bytes) -> int:
        return row_of(first, count, source, arrived_ns, data).sum

    database.create_function("chunk_sum", 5, total, deterministic=True)
    database.execute("UPDATE chunk SET sum = chunk_sum(first, count, source, arrived_ns, data)")
