"""Published outputs by sink: numbered, in order, until the sink's receiver has them."""

from __future__ import annotations

import sqlite3
from array import array
from pathlib import Path
from typing import NamedTuple

from wallaroo.errors import RESTORE
from wallaroo.gateway.database import DamagedDatabase, checksum, file_of
from wallaroo.gateway.journal.block_rows import SKIP
from wallaroo.gateway.outbox.kept import SCHEMA as KEPT_SCHEMA
from wallaroo.gateway.outbox.kept import KeptOutputs
from wallaroo.wire.records import Outputs

SCHEMA = f"""
{KEPT_SCHEMA}
-- outputs of one sink, one after the other
CREATE TABLE IF NOT EXISTS piece (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sink INTEGER NOT NULL,
    lengths BLOB NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS published (
    position INTEGER PRIMARY KEY AUTOINCREMENT, sink INTEGER NOT NULL, piece INTEGER NOT NULL,
    count INTEGER NOT NULL, bytes INTEGER NOT NULL, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sequence (sink INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS delivered (sink INTEGER PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sent (sink INTEGER PRIMARY KEY, number INTEGER NOT NULL);
"""


class Delivery(NamedTuple):
    """Published outputs, ready to send."""

    position: int
    """Place in the order of the outbox."""
    outputs: Outputs
    number: int = 1
    """Number of the first of them among all outputs that the sink ever had, from 1 on."""


class OutputQueues:
    """A queue of outputs for each sink; its caller holds a lock, and the transaction.

    Args:
        database: The outbox's, where the outputs are in rows of `piece`.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._kept = KeptOutputs(database)
        self.last_positions: dict[int, int] = {}
        """Position of the last output that was added since the outbox was opened, by sink."""

    def size(self) -> tuple[int, int]:
        """Bytes and number of all outputs in the queues."""
        size, count = self._database.execute(
            "SELECT coalesce(sum(bytes), 0), coalesce(sum(count), 0) FROM published"
        ).fetchone()
        return size, count

    def add(self, outputs: Outputs) -> int:
        """Add *outputs*; returns how many there are."""
        piece = self._database.execute(
            "INSERT INTO piece (sink, lengths, data, sum) VALUES (?, ?, ?, ?)",
            (*outputs, outputs_sum(outputs)),
        )
        sink, count = outputs.sink, len(outputs.lengths) // array("I").itemsize
        (last,) = self._database.execute(
            "INSERT INTO sequence VALUES (?, ?) "
            "ON CONFLICT (sink) DO UPDATE SET last = last + excluded.last RETURNING last",
            (sink, count),
        ).fetchone()
        added = self._database.execute(
            "INSERT INTO published (sink, piece, count, bytes, number) VALUES (?, ?, ?, ?, ?)",
            (sink, piece.lastrowid, count, len(outputs.data), last - count + 1),
        )
        self.last_positions[sink] = int(added.lastrowid or 0)
        return count

    def first(self, sink: int, after: int) -> Delivery | None:
        """The first outputs of *sink* after position *after*.

        Raises:
            DamagedDatabase: They are not as they were written.
        """
        row = self._database.execute(
            "SELECT position, lengths, data, number, sum "
            "FROM published JOIN piece ON piece.id = piece "
            "WHERE published.sink = ? AND position > ? ORDER BY position LIMIT 1",
            (sink, after),
        ).fetchone()
        if row is None:
            return None
        position, lengths, data, number, total = row
        outputs = Outputs(sink, lengths, data)
        if outputs_sum(outputs) != total:
            raise damaged_outputs(file_of(self._database), sink, number)
        return Delivery(position, outputs, number)

    def remove(self, sink: int, position: int, keep_bytes: int) -> tuple[int, int]:
        """Remove the outputs of *sink* up to *position*: its receiver has them.

        Args:
            sink: The sink.
            position: Position of the last of them.
            keep_bytes: Bytes of removed outputs, the newest, that `kept` still returns.

        Returns:
            Bytes and number of what was removed.
        """
        size, count = self._database.execute(
            "SELECT coalesce(sum(bytes), 0), coalesce(sum(count), 0) FROM published "
            "WHERE sink = ? AND position <= ?",
            (sink, position),
        ).fetchone()
        if keep_bytes:
            self._kept.keep(sink, position, keep_bytes)
        else:
            self._database.execute(
                "DELETE FROM piece WHERE id IN "
                "(SELECT piece FROM published WHERE sink = ? AND position <= ?)",
                (sink, position),
            )
        self._database.execute(
            "DELETE FROM published WHERE sink = ? AND position <= ?", (sink, position)
        )
        self._database.execute(
            "INSERT INTO delivered VALUES (?, ?) "
            "ON CONFLICT (sink) DO UPDATE SET count = count + excluded.count",
            (sink, count),
        )
        return size, count

    def kept(self, sink: int) -> list[Delivery]:
        """What `remove` has kept of *sink*, in order, without what is damaged."""
        found = [
            (number, Outputs(sink, lengths, data), total)
            for number, lengths, data, total in self._kept.rows(sink)
        ]
        return [
            Delivery(0, made, number) for number, made, total in found if outputs_sum(made) == total
        ]

    def delivered_to(self, sink: int) -> int:
        """Outputs of *sink* that were removed since the outbox was new."""
        return self._number("SELECT count FROM delivered WHERE sink = ?", sink)

    def published_to(self, sink: int) -> int:
        """Number of the last output that *sink* ever had; 0 if there was none."""
        return self._number("SELECT last FROM sequence WHERE sink = ?", sink)

    def note_sent(self, sink: int, number: int) -> None:
        """Note that the receiver of *sink* has outputs up to *number*, in mid delivery."""
        self._database.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (sink, number))

    def sent_to(self, sink: int) -> int:
        """Number of the last output that the receiver of *sink* is known to have; 0 for none."""
        noted = self._number("SELECT number FROM sent WHERE sink = ?", sink)
        return max(noted, self.delivered_to(sink))

    def by_sink(self) -> dict[int, tuple[int, int]]:
        """For each sink: outputs delivered since the outbox was new, and outputs that wait."""
        delivered = dict(self._database.execute("SELECT sink, count FROM delivered"))
        waiting = dict(
            self._database.execute("SELECT sink, sum(count) FROM published GROUP BY sink")
        )
        return {
            sink: (delivered.get(sink, 0), waiting.get(sink, 0))
            for sink in delivered.keys() | waiting.keys()
        }

    def _number(self, query: str, sink: int) -> int:
        row = self._database.execute(query, (sink,)).fetchone()
        return int(row[0]) if row else 0


def outputs_sum(outputs: Outputs) -> int:
    """The checksum of a row with *outputs*."""
    return checksum(outputs.data, outputs.sink, checksum(outputs.lengths))


def damaged_outputs(file: Path | str, sink: int, number: int) -> DamagedDatabase:
    """The error that a piece of the outbox is damaged; *number* is that of its first output."""
    problem = f"the outputs from number {number} on for sink {sink} do not match their checksum"
    remedy = (
        f"{RESTORE}, or start with {SKIP}: the bytes of these outputs are kept as a dead letter, "
        "and the application resumes without them"
    )
    return DamagedDatabase(file, problem, remedy)
