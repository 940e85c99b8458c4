"""What chunks of the real-time engine leave in the outbox besides outputs: progress and changes.

The changes of state that a chunk made lie here until Spark has them in its state store: they are
part of the transaction that publishes the chunk's outputs, so that both are there or none.
"""

from __future__ import annotations

import contextlib
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.gateway.database import transaction
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.dead_letters.store import DeadLetterLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.outbox.staging import (
    INSERT_CHANGE,
    INSERT_STAGED,
    change_sum,
    check_change,
    outputs_sum,
)
from wallaroo.gateway.row_sums import keep_sums
from wallaroo.system.failpoints import fault
from wallaroo.wire.records import Outputs, Tally

SCHEMA = """
CREATE TABLE IF NOT EXISTS progress (
    run TEXT PRIMARY KEY, chunk INTEGER NOT NULL, end INTEGER NOT NULL);
-- up to which chunk a checkpoint has the changes, which are forgotten here
CREATE TABLE IF NOT EXISTS forgotten (run TEXT PRIMARY KEY, chunk INTEGER NOT NULL);
"""
_CHANGE = "epoch, state, bucket, change, sum"
_ALL_STATES, _MORE = "", "+"
"""In the place of a state's name: a record holds the changes of all states, and the rest of it is
in the next row of its partition."""
_ROW_BYTES = 256 * 1024**2
"""Bytes of a record in one row: SQLite takes less than a gigabyte."""
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

    @property
    def changes_bytes(self) -> int:
        """Size of all records of what changed."""
        return sum(len(record) for _, record in self.changes)


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
            (*change, change_sum(*change))
            for chunk in chunks
            for partition, record in chunk.changes
            for state, part in _parts(record)
            for change in [(run, chunk.number, state, partition, part)]
        ]
        if changes:
            self._database.executemany(INSERT_CHANGE, changes)
        last = chunks[-1]
        self._database.execute(
            "INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", (run, last.number, last.end)
        )

    def changes(self, run: str, partition: int, after: int) -> Sequence[bytes]:
        """What the chunks of *run* after number *after* changed in *partition*, in order."""
        rows = self._database.execute(
            f"SELECT {_CHANGE} FROM change WHERE run = ? AND epoch > ? AND bucket = ? ORDER BY id",
            (run, after, partition),
        )
        return self._checked(run, rows)

    def all_changes(self, run: str, after: int) -> list[bytes]:
        """What the chunks of *run* after number *after* changed in any partition, in order."""
        rows = self._database.execute(
            f"SELECT {_CHANGE} FROM change WHERE run = ? AND epoch > ? ORDER BY id", (run, after)
        )
        return self._checked(run, rows)

    def _checked(self, run: str, rows: Iterable[Sequence[Any]]) -> list[bytes]:
        """The records of *rows* of changes.

        Raises:
            DamagedDatabase: One is not as it was written.
        """
        records: list[bytes] = []
        parts: list[bytes] = []
        for epoch, state, bucket, part, total in rows:
            check_change(self._database, run, epoch, (state, bucket, part), total)
            parts.append(part)
            if state != _MORE:
                records.append(parts[0] if len(parts) == 1 else b"".join(parts))
                parts.clear()
        return records

    def forget(self, run: str, until: int) -> None:
        """Forget what the chunks of *run* up to number *until* changed."""
        self._database.execute("DELETE FROM change WHERE run = ? AND epoch <= ?", (run, until))
        self._database.execute("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", (run, until))


class ChunkOutbox(Outbox):
    """An outbox that also publishes chunks, several in one transaction.

    A chunk is an epoch in the table of changes, and a partition is a bucket there.
    """

    def __init__(
        self, path: Path, limit_bytes: int, dead_letters: DeadLetterLimits | None = None
    ) -> None:
        super().__init__(path, limit_bytes, dead_letters)
        self._database.executescript(SCHEMA)
        keep_sums(self._database)
        self._chunks = ChunkTable(self._database)

    def publish_chunks(
        self, run: str, chunks: Sequence[FinishedChunk], evidence: EvidenceFinder | None = None
    ) -> Tally:
        """Commit *chunks*, which follow the published ones of *run*.

        Returns:
            What was reported, without letters.

        Raises:
            Stopped: A message of a source whose policy is to stop has failed.
        """
        tally = Tally()
        for chunk in chunks:
            tally.merge(chunk.tally)
        with self._changed:
            count = size = 0
            with transaction(self._database):
                for outputs in joined(chunks):
                    count += self._publish_outputs(outputs)
                    size += len(outputs.data)
                self._count_up("published", count)
                self._chunks.add(run, chunks)
                if evidence is not None and tally.letters:
                    self._dead_letters.keep(evidence.kept(tally.letters, chunks[-1].end))
                tally.letters = []
                self._count_up("set_aside", tally.set_aside)
                self._count_up("unknown_key", sum(tally.unknown_keys.values()))
                self._count_up("late", sum(tally.late.values()))
                self._metrics.add(tally, self.clock())
                fault("outbox-before-publish")
            fault("outbox-after-publish")
            self._note_published()
            self._count += count
            self._bytes += size
            self._changed.notify_all()
        return tally

    @contextlib.contextmanager
    def chunks(self) -> Iterator[ChunkTable]:
        """What chunks have left, for one transaction."""
        with self._changed, transaction(self._database):
            yield self._chunks

    def _publish_outputs(self, outputs: Outputs) -> int:
        """Add *outputs*, which were not staged before; returns how many there are."""
        staged = self._database.execute(INSERT_STAGED, ("", *outputs, outputs_sum(outputs)))
        count = len(outputs.lengths) // array("I").itemsize
        self._queues.add(outputs.sink, staged.lastrowid or 0, count, len(outputs.data))
        return count


def _parts(record: bytes) -> Iterator[tuple[str, bytes]]:
    """The rows of a *record*: what each has in the place of a state's name, and its content."""
    for start in range(0, len(record), _ROW_BYTES):
        is_last = start + _ROW_BYTES >= len(record)
        yield _ALL_STATES if is_last else _MORE, record[start : start + _ROW_BYTES]


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
