"""Outputs that are delivered and still kept, for receivers that come back and ask for them."""

from __future__ import annotations

import sqlite3

SCHEMA = """
CREATE TABLE IF NOT EXISTS kept (
    sink INTEGER NOT NULL, number INTEGER NOT NULL, piece INTEGER NOT NULL,
    bytes INTEGER NOT NULL, PRIMARY KEY (sink, number));
"""
_ROW_BYTES = 128
"""What a row counts besides its data, so that there is a bound on rows, too."""


class KeptOutputs:
    """The newest delivered outputs of sinks; its caller holds a lock, and the transaction.

    Args:
        database: The outbox's, where the outputs stay in their rows of `piece`.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._bytes: dict[int, int] = {}
        """Bytes that are kept, by sink."""

    def keep(self, sink: int, position: int, most_bytes: int) -> None:
        """Keep what *sink* has up to *position*, and of all that is kept the last *most_bytes*.

        Call it before these outputs are deleted.
        """
        if sink not in self._bytes:
            (self._bytes[sink],) = self._database.execute(
                "SELECT coalesce(sum(bytes), 0) FROM kept WHERE sink = ?", (sink,)
            ).fetchone()
        added = self._database.execute(
            "INSERT INTO kept SELECT sink, number, piece, bytes + ? FROM published "
            "WHERE sink = ? AND position <= ? RETURNING bytes",
            (_ROW_BYTES, sink, position),
        ).fetchall()
        self._bytes[sink] += sum(size for (size,) in added)
        while self._bytes[sink] > most_bytes:
            number, piece, size = self._database.execute(
                "SELECT number, piece, bytes FROM kept WHERE sink = ? ORDER BY number LIMIT 1",
                (sink,),
            ).fetchone()
            self._database.execute("DELETE FROM piece WHERE id = ?", (piece,))
            self._database.execute("DELETE FROM kept WHERE sink = ? AND number = ?", (sink, number))
            self._bytes[sink] -= size

    def rows(self, sink: int) -> list[tuple[int, bytes, bytes, int]]:
        """What is kept of *sink*, in order: number of the first, lengths, data and checksum."""
        return self._database.execute(
            "SELECT number, lengths, data, sum FROM kept JOIN piece ON id = kept.piece "
            "WHERE kept.sink = ? ORDER BY number",
            (sink,),
        ).fetchall()
