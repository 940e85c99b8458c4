"""Checksums of rows that have none of their own: positions, openings, streams, numbers, counters.

Triggers keep a checksum of each row of these tables in a table beside them, whichever statement
writes the row. A database without such triggers gets them, and its rows are taken as they are.

Left out are metrics, which many rows change with each publication, and dead letters, which nothing
is computed from. What has a checksum in its own row is not here either.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from wallaroo.gateway.database import DamagedDatabase, checksum, transaction

TABLES = (
    *("accepted", "opening", "position", "reached", "request_key", "stream", "stream_opener"),
    *("counter", "delivered", "forgotten", "identity", "letter_origin", "letter_total", "kept"),
    *("numbering", "progress", "published", "sent", "sequence"),
)
"""Tables of journal and outbox whose rows have a checksum in `row_sum`."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS row_sum (
    of TEXT NOT NULL, place INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (of, place)
) WITHOUT ROWID
"""
_PUT = "INSERT OR REPLACE INTO row_sum VALUES (?, ?, ?)"


def keep_sums(database: sqlite3.Connection) -> None:
    """Let the rows of all `TABLES` that *database* has bear checksums from now on."""
    schema = dict(database.execute("SELECT name, sql FROM sqlite_master"))
    late = [name for name in TABLES if name in schema and not _is_kept(database, name, schema)]
    if not late:
        return
    with transaction(database):
        database.execute(_SCHEMA)
        for name in late:
            for trigger, statement in _triggers(name, _columns(database, name)).items():
                database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
                database.execute(statement)
            database.execute("DELETE FROM row_sum WHERE of = ?", (name,))
            sums = [(name, place, total) for place, _, total in _rows(database, name)]
            database.executemany(_PUT, sums)


def check_rows(database: sqlite3.Connection, file: Path) -> None:
    """Compare the rows of *database*, which is in *file*, with their checksums.

    Raises:
        DamagedDatabase: One is not as it was written, or is missing, or was not written.
    """
    schema = dict(database.execute("SELECT name, sql FROM sqlite_master"))
    if "row_sum" not in schema:
        return
    for name in TABLES:
        expected = dict(database.execute("SELECT place, sum FROM row_sum WHERE of = ?", (name,)))
        if name not in schema:
            continue  # it comes back empty
        if expected or f"{name}_inserted" in schema:
            for place, shown, total in _rows(database, name):
                if expected.pop(place, None) != total:
                    problem = f"a row of its table {name!r} does not match its checksum: {shown}"
                    raise DamagedDatabase(file, problem)
        if expected:
            problem = f"its table {name!r} lacks {len(expected)} rows that were written"
            raise DamagedDatabase(file, problem)
    others = database.execute(
        f"SELECT of FROM row_sum WHERE of NOT IN ({','.join('?' * len(TABLES))})", TABLES
    )
    if (other := others.fetchone()) is not None:
        problem = f"its table 'row_sum' names a table {other[0]!r}, which has no checksums"
        raise DamagedDatabase(file, problem)


def _is_kept(database: sqlite3.Connection, name: str, schema: dict[str, str]) -> bool:
    triggers = _triggers(name, _columns(database, name))
    return all(schema.get(trigger) == statement for trigger, statement in triggers.items())


def _columns(database: sqlite3.Connection, name: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({name})")]


def _triggers(name: str, columns: list[str]) -> dict[str, str]:
    """Statements that create the triggers of the table *name*, by name of the trigger."""
    values = ", ".join(f"NEW.{column}" for column in columns)
    # not OR REPLACE, which the statement that sets the trigger off would override
    put = (
        f"INSERT INTO row_sum VALUES ('{name}', NEW.rowid, row_sum({values})) "
        "ON CONFLICT (of, place) DO UPDATE SET sum = excluded.sum"
    )
    forget = f"DELETE FROM row_sum WHERE of = '{name}' AND place = OLD.rowid"
    return {
        f"{name}_{event}": f"CREATE TRIGGER {name}_{event} AFTER {when} ON {name} BEGIN {do}; END"
        for event, when, do in (
            ("inserted", "INSERT", put),
            ("updated", "UPDATE", put),
            ("deleted", "DELETE", forget),
        )
    }


def _rows(database: sqlite3.Connection, name: str) -> Iterator[tuple[int, str, int]]:
    """For each row of a table: its number, how to show it, and its checksum."""
    columns = _columns(database, name)
    for place, *values in database.execute(f"SELECT rowid, {', '.join(columns)} FROM {name}"):
        shown = ", ".join(f"{c} {value!r}" for c, value in zip(columns, values, strict=True))
        yield place, shown, checksum(b"", *values)
