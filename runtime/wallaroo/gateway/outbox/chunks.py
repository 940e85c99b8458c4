"""Chunks in the outbox: the progress of a query, and its changes of state.

The changes of state that a chunk made lie here until Spark has them in its state store: they are
part of the transaction that publishes the chunk's outputs, so that both are there or none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from wallaroo.gateway.database import DamagedDatabase, checksum, file_of
from wallaroo.wire.records import Outputs, Tally

SCHEMA = """
CREATE TABLE IF NOT EXISTS progress (
    run TEXT PRIMARY KEY, chunk INTEGER NOT NULL, end INTEGER NOT NULL);
-- up to which chunk a checkpoint has the changes, which are forgotten here
CREATE TABLE IF NOT EXISTS forgotten (run TEXT PRIMARY KEY, chunk INTEGER NOT NULL);
-- a record of changes; more: whether the rest of it is in the next row of its partition
CREATE TABLE IF NOT EXISTS change (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, chunk INTEGER NOT NULL,
    partition INTEGER NOT NULL, more INTEGER NOT NULL, record BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS change_of_chunk ON change (run, chunk);
"""
CHANGE = "run, chunk, partition, more, record, sum"
"""The columns of a change, as `check_change` takes them."""
_ROW_BYTES = 256 * 1024**2
"""Bytes of a record in one row: SQLite takes less than a gigabyte."""
_PIECE_BYTES = 1024 * 1024
"""Bytes of outputs that are delivered together: what a gateway that dies may have to send again."""


class QueryProgress(NamedTuple):
    """How far the published chunks of a query go."""

    chunk: int
    """Number of the last chunk."""
    end: int
    """Offset after its last message."""


class FinishedChunk(NamedTuple):
    """A chunk that all processes have reported."""

    number: int
    """Number of the chunk."""
    end: int
    """Offset after its last message."""
    outputs: Sequence[Outputs]
    """Its outputs."""
    tally: Tally
    """What the processes reported besides."""
    changes: Sequence[tuple[int, bytes]]
    """By partition, the record of what changed."""
    began: float = 0.0
    """When it was handed out, by the clock that does not run backwards."""

    @property
    def changes_bytes(self) -> int:
        """Size of all records of what changed."""
        return sum(len(record) for _, record in self.changes)


class ChunkTable:
    """The chunks in *database*; its caller holds a lock, and the transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def progress(self) -> dict[str, QueryProgress]:
        """How far each query is, by its name."""
        rows = self._database.execute("SELECT run, chunk, end FROM progress")
        return {run: QueryProgress(chunk, end) for run, chunk, end in rows}

    def add(self, run: str, chunks: Sequence[FinishedChunk]) -> None:
        """Add what *chunks* changed, and how far the query *run* is with the last of them."""
        changes = [
            (*change, _sum(*change))
            for chunk in chunks
            for partition, record in chunk.changes
            for more, part in _parts(record)
            for change in [(run, chunk.number, partition, more, part)]
        ]
        if changes:
            self._database.executemany(
                f"INSERT INTO change ({CHANGE}) VALUES (?, ?, ?, ?, ?, ?)", changes
            )
        last = chunks[-1]
        self._database.execute(
            "INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", (run, last.number, last.end)
        )

    def changes(self, run: str, partition: int, after: int) -> Sequence[bytes]:
        """What the chunks of *run* after number *after* changed in *partition*, in order."""
        rows = self._database.execute(
            f"SELECT {CHANGE} FROM change WHERE run = ? AND chunk > ? AND partition = ? "
            "ORDER BY id",
            (run, after, partition),
        )
        return self._checked(rows)

    def all_changes(self, run: str, after: int) -> list[bytes]:
        """What the chunks of *run* after number *after* changed in any partition, in order."""
        rows = self._database.execute(
            f"SELECT {CHANGE} FROM change WHERE run = ? AND chunk > ? ORDER BY id", (run, after)
        )
        return self._checked(rows)

    def _checked(self, rows: Iterable[Sequence[Any]]) -> list[bytes]:
        """The records of *rows* of changes.

        Raises:
            DamagedDatabase: One is not as it was written.
        """
        records: list[bytes] = []
        parts: list[bytes] = []
        for row in rows:
            check_change(self._database, row)
            *_, more, part, _ = row
            parts.append(part)
            if not more:
                records.append(parts[0] if len(parts) == 1 else b"".join(parts))
                parts.clear()
        return records

    def forget(self, run: str, until: int) -> None:
        """Forget what the chunks of *run* up to number *until* changed."""
        self._database.execute("DELETE FROM change WHERE run = ? AND chunk <= ?", (run, until))
        self._database.execute("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", (run, until))


def check_change(database: sqlite3.Connection, row: Sequence[Any]) -> None:
    """Refuse a *row* of changes that does not match its checksum.

    Raises:
        DamagedDatabase: It does not.
    """
    run, chunk, partition, more, record, total = row
    if _sum(run, chunk, partition, more, record) != total:
        problem = (
            f"the changes of state in partition {partition}, chunk {chunk} of {run}, do not match "
            "their checksum"
        )
        raise DamagedDatabase(file_of(database), problem)


def _sum(run: str, chunk: int, partition: int, more: int, record: bytes) -> int:
    return checksum(record, run, chunk, partition, more)


def _parts(record: bytes) -> Iterator[tuple[int, bytes]]:
    """The rows of a *record*: whether each has more after it, and its content."""
    for start in range(0, len(record), _ROW_BYTES):
        end = start + _ROW_BYTES
        yield int(end < len(record)), record[start:end]


def joined(chunks: Sequence[FinishedChunk]) -> Iterator[Outputs]:
    """The outputs of *chunks*, those for one sink in pieces of moderate size, in order."""
    gathered: dict[int, list[Outputs]] = {}
    sizes: dict[int, int] = {}
    for chunk in chunks:
        for outputs in chunk.outputs:
            size = sizes.get(outputs.sink, 0)
            if size and size + len(outputs.data) > _PIECE_BYTES:
                yield _piece(gathered.pop(outputs.sink))
                size = 0
            gathered.setdefault(outputs.sink, []).append(outputs)
            sizes[outputs.sink] = size + len(outputs.data)
    for parts in gathered.values():
        yield _piece(parts)


def _piece(parts: Sequence[Outputs]) -> Outputs:
    if len(parts) == 1:
        return parts[0]
    lengths = b"".join(part.lengths for part in parts)
    return Outputs(parts[0].sink, lengths, b"".join(part.data for part in parts))
