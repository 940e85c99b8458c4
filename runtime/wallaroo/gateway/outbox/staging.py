"""What tasks have left in the outbox for epochs that are not published yet.

It belongs to one epoch of one run. Publishing an epoch takes what its tokens name and forgets what
else was staged for it and for earlier epochs of the same run; other runs and later epochs keep
theirs, so that engines and epochs may overlap.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from wallaroo.dataflow.records import Outputs, Tally

SCHEMA = """
CREATE TABLE IF NOT EXISTS staged (
    id INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL, sink INTEGER NOT NULL,
    lengths BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS task_report (
    call TEXT PRIMARY KEY, run TEXT NOT NULL, epoch INTEGER NOT NULL, token TEXT NOT NULL,
    tally TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL);
"""


class TaskReport(NamedTuple):
    """What one call has staged."""

    tally: Tally
    first: int
    """Number of the first of its outputs among all that were ever staged."""
    last: int
    """Number of the last of them; less than `first` if there are none."""


class Staging:
    """The staged reports in *database*; its caller holds a lock, and the transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(
        self,
        run: str,
        epoch: int,
        token: str,
        outputs: Sequence[Outputs],
        tally: Tally,
        call: str,
    ) -> None:
        """Keep a report; does nothing if *call* has been made before."""
        known = self._database.execute("SELECT 1 FROM task_report WHERE call = ?", (call,))
        if known.fetchone():
            return
        last = self._last()
        first = last + 1
        for of_sink in outputs:
            last = (
                self._database.execute(
                    "INSERT INTO staged (token, sink, lengths, data) VALUES (?, ?, ?, ?)",
                    (token, *of_sink),
                ).lastrowid
                or last
            )
        self._database.execute(
            "INSERT INTO task_report VALUES (?, ?, ?, ?, ?, ?, ?)",
            (call, run, epoch, token, json.dumps(tally.to_json()), first, last),
        )

    def take(self, run: str, epoch: int, token: str) -> list[TaskReport]:
        """What was staged under *token*, in order; its outputs stay until they are delivered.

        Raises:
            LookupError: Nothing was.
        """
        rows = self._database.execute(
            "SELECT rowid, tally, first, last FROM task_report "
            "WHERE run = ? AND epoch = ? AND token = ? ORDER BY rowid",
            (run, epoch, token),
        ).fetchall()
        if not rows:
            msg = f"nothing is staged under {token} for epoch {epoch}: was the outbox replaced?"
            raise LookupError(msg)
        self._database.executemany(
            "DELETE FROM task_report WHERE rowid = ?", [(row,) for row, *_ in rows]
        )
        return [
            TaskReport(Tally.from_json(json.loads(tally)), first, last)
            for _, tally, first, last in rows
        ]

    def forget(self, run: str, epoch: int) -> None:
        """Drop what is staged for epochs of *run* up to *epoch*."""
        self._drop("run = ? AND epoch <= ?", (run, epoch))

    def forget_all(self) -> None:
        """Drop everything that is staged."""
        self._drop("TRUE", ())

    def _drop(self, condition: str, values: Sequence[str | int]) -> None:
        dropped = self._database.execute(
            f"DELETE FROM task_report WHERE {condition} RETURNING first, last", values
        ).fetchall()
        self._database.executemany("DELETE FROM staged WHERE id BETWEEN ? AND ?", dropped)

    def _last(self) -> int:
        """Number of the last output that was ever staged; numbers are never used twice."""
        row = self._database.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'staged'"
        ).fetchone()
        return row[0] if row else 0
