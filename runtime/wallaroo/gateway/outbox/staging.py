"""What tasks have left in the outbox for epochs that are not published yet.

It belongs to one epoch of one run. Publishing an epoch takes what its tokens name and forgets what
else was staged for it and for earlier epochs of the same run; other runs and later epochs keep
theirs, so that engines and epochs may overlap.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from wallaroo.gateway.database import DamagedDatabase, checksum, file_of
from wallaroo.wire.records import Outputs, Tally

SCHEMA = """
CREATE TABLE IF NOT EXISTS staged (
    id INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL, sink INTEGER NOT NULL,
    lengths BLOB NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS task_report (
    call TEXT PRIMARY KEY, run TEXT NOT NULL, epoch INTEGER NOT NULL, token TEXT NOT NULL,
    tally TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    first_change INTEGER NOT NULL, last_change INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS change (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, epoch INTEGER NOT NULL,
    state TEXT NOT NULL, bucket INTEGER NOT NULL, change BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS change_epoch ON change (run, epoch);
"""


class StateChange(NamedTuple):
    """A change of the entities of one bucket, which the gateway does not look into."""

    state: str
    """Name of the state."""
    bucket: int
    """Number of the bucket."""
    change: bytes
    """The change, in the engine's own format."""


INSERT_STAGED = "INSERT INTO staged (token, sink, lengths, data, sum) VALUES (?, ?, ?, ?, ?)"
INSERT_CHANGE = (
    "INSERT INTO change (run, epoch, state, bucket, change, sum) VALUES (?, ?, ?, ?, ?, ?)"
)
_BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes of changes that are read at a time."""


def outputs_sum(outputs: Outputs) -> int:
    """The checksum of a row with *outputs*."""
    return checksum(outputs.data, outputs.sink, checksum(outputs.lengths))


def change_sum(run: str, epoch: int, state: str, bucket: int, change: bytes) -> int:
    """The checksum of a row with a change of state."""
    return checksum(change, run, epoch, state, bucket)


def check_change(
    database: sqlite3.Connection, run: str, epoch: int, change: Sequence[Any], total: int
) -> None:
    """Refuse a row with a *change*: state, bucket and content.

    Raises:
        DamagedDatabase: It does not match its checksum, *total*.
    """
    if change_sum(run, epoch, *change) != total:
        problem = (
            f"the changes of state in partition {change[1]}, batch {epoch} of {run}, do not "
            "match their checksum"
        )
        raise DamagedDatabase(file_of(database), problem)


class TaskReport(NamedTuple):
    """What one call has staged."""

    tally: Tally
    first: int
    """Number of the first of its outputs among all that were ever staged."""
    last: int
    """Number of the last of them; less than `first` if there are none."""


class Staging:
    """The staged reports in *database*; its caller holds a lock, and the transaction.

    Changes of state need no separate step to be published: those of an epoch are published if
    and only if the epoch is, since publishing it drops all others.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(
        self,
        run: str,
        epoch: int,
        token: str,
        outputs: Sequence[Outputs],
        tally: Tally,
        changes: Sequence[StateChange],
        call: str,
    ) -> None:
        """Keep a report; does nothing if *call* has been made before."""
        known = self._database.execute("SELECT 1 FROM task_report WHERE call = ?", (call,))
        if known.fetchone():
            return
        last = self._last("staged")
        first = last + 1
        for of_sink in outputs:
            last = self._added(INSERT_STAGED, (token, *of_sink, outputs_sum(of_sink)))
        first_change, last_change = 1, 0
        if changes:
            first_change = self._last("change") + 1
        for change in changes:
            last_change = self._added(
                INSERT_CHANGE, (run, epoch, *change, change_sum(run, epoch, *change))
            )
        report = json.dumps(tally.to_json())
        self._database.execute(
            "INSERT INTO task_report VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (call, run, epoch, token, report, first, last, first_change, last_change),
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

    def changes(
        self, run: str, after: tuple[int, int], last_epoch: int
    ) -> list[tuple[int, int, str, int, bytes]]:
        """Some changes of *run* after an epoch and a number, up to those of *last_epoch*.

        Returns:
            Epoch, number, state, bucket and change of each.
        """
        found, size = [], 0
        for row in self._database.execute(
            "SELECT epoch, id, state, bucket, change, sum FROM change "
            "WHERE run = ? AND (epoch, id) > (?, ?) AND epoch <= ? ORDER BY epoch, id",
            (run, *after, last_epoch),
        ):
            epoch, number, *change, total = row
            check_change(self._database, run, epoch, change, total)
            found.append((epoch, number, *change))
            size += len(change[-1])
            if size >= _BLOCK_BYTES:
                break
        return found

    def forget_changes(self, run: str, epoch: int) -> None:
        """Drop the published changes of *run* up to *epoch*, which has been published."""
        self._database.execute("DELETE FROM change WHERE run = ? AND epoch <= ?", (run, epoch))

    def _drop(self, condition: str, values: Sequence[str | int]) -> None:
        dropped = self._database.execute(
            f"DELETE FROM task_report WHERE {condition} "
            "RETURNING first, last, first_change, last_change",
            values,
        ).fetchall()
        for first, last, first_change, last_change in dropped:
            self._database.execute("DELETE FROM staged WHERE id BETWEEN ? AND ?", (first, last))
            if first_change <= last_change:
                self._database.execute(
                    "DELETE FROM change WHERE id BETWEEN ? AND ?", (first_change, last_change)
                )

    def _added(self, statement: str, values: Sequence[str | int | bytes]) -> int:
        """Number of the row that *statement* has inserted."""
        return int(self._database.execute(statement, values).lastrowid or 0)

    def _last(self, table: str) -> int:
        """Number of the last row that *table* ever had; numbers are never used twice."""
        row = self._database.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)
        ).fetchone()
        return row[0] if row else 0
