"""What chunks of the real-time engine leave in the outbox besides outputs: progress and changes.

The changes of state that a chunk made lie here until Spark has them in its state store: they are
part of the transaction that publishes the chunk's outputs, so that both are there or none.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wallaroo.dataflow.records import Outputs, Tally

SCHEMA = """
CREATE TABLE IF NOT EXISTS progress (
    run TEXT PRIMARY KEY, chunk INTEGER NOT NULL, end INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS change (
    chunk INTEGER NOT NULL, partition INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (chunk, partition)) WITHOUT ROWID;
"""
_PIECE_BYTES = 1024 * 1024
"""Bytes of outputs that are delivered together: what a gateway that dies may have to send again."""


class Progress(NamedTuple):
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


class ChunkTable:
    """The chunks in *database*; its caller holds a lock, and the transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def progress(self) -> dict[str, Progress]:
        """How far each query is, by its name."""
        rows = self._database.execute("SELECT run, chunk, end FROM progress")
        return {run: Progress(chunk, end) for run, chunk, end in rows}

    def add(self, run: str, chunks: Sequence[FinishedChunk]) -> None:
        """Add what *chunks* changed, and how far the query *run* is with the last of them."""
        changes = [
            (chunk.number, partition, record)
            for chunk in chunks
            for partition, record in chunk.changes
        ]
        if changes:
            self._database.executemany("INSERT INTO change VALUES (?, ?, ?)", changes)
        last = chunks[-1]
        self._database.execute(
            "INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", (run, last.number, last.end)
        )

    def changes(self, partition: int, after: int) -> Iterator[bytes]:
        """What the chunks after number *after* changed in *partition*, in order."""
        rows = self._database.execute(
            "SELECT record FROM change WHERE partition = ? AND chunk > ? ORDER BY chunk",
            (partition, after),
        )
        return (record for (record,) in rows.fetchall())

    def forget(self, until: int) -> None:
        """Forget what the chunks up to number *until* changed."""
        self._database.execute("DELETE FROM change WHERE chunk <= ?", (until,))


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


def count_of(outputs: Outputs) -> int:
    """How many outputs there are."""
    return len(outputs.lengths) // array("I").itemsize
