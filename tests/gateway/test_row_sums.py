"""Checksums of positions, openings, streams, numbers and counters: a changed value is told."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import finished, outputs
from tests.helpers import PATIENCE_S
from wallaroo.gateway.consistency.damage import check_for_damage
from wallaroo.gateway.database import DamagedDatabase, connect
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import Opener, StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits, Reached
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.row_sums import TABLES
from wallaroo.gateway.startup import take

SOURCES = ["lines"]
_CHANGED = {int: "{0} + 1", str: "{0} || 'x'", bytes: "x'ff'", type(None): "'x'"}
"""How a value is changed, by its type."""


def write(directory: Path, times: int = 2) -> None:
    """Let journal and outbox write to all of their tables, several times."""
    os.close(take(directory, "Votes"))
    journal = Journal(directory / "journal.db", JournalLimits())
    name = StreamName(0, "a")
    number = journal.stream_positions.open(name, Opener("a subject", "10.0.0.1"))
    for _ in range(times):
        number += 1
        at = name, number
        request = KeyedRequest(0, b"key %d" % number, b"digest", 1)
        journal.submit(0, 1, b"x", at, Reached("lines", b"%d" % number), request)
        assert journal.flush(PATIENCE_S)
        journal.note_processed(number)
    journal.close()
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    for chunk in range(number - times + 1, number + 1):
        made = [outputs(b"out", to=0), outputs(b"out", to=1)]
        outbox.publish("run", [finished(chunk, *made, change=b"x")])
    outbox.note_numbered(0, numbered=True)
    delivery = outbox.next(0, 0, PATIENCE_S)
    assert delivery is not None
    outbox.sent(0, delivery.number)
    outbox.delivered(0, delivery.position, keep_bytes=1000)
    with outbox.chunks() as table:
        table.forget("run", number - 1)
    outbox.close()
    with contextlib.closing(connect(directory / "outbox.db")) as database:  # as letters do
        for table_name in ("letter_origin", "letter_total"):
            database.execute(f"INSERT OR REPLACE INTO {table_name} VALUES ('source', 1)")


@contextlib.contextmanager
def behind_its_back(file: Path) -> Iterator[sqlite3.Connection]:
    """A database, to be changed as a disk would: nothing notices."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            database.execute(f"DROP TRIGGER {name}")
        yield database


def tables(file: Path) -> dict[str, dict[str, type]]:
    """Types of the values of a row, by table that bears checksums and by column."""
    found: dict[str, dict[str, type]] = {}
    with contextlib.closing(sqlite3.connect(file)) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for table in names & set(TABLES):
            row = database.execute(f"SELECT * FROM {table}")
            values = row.fetchone()
            columns = [column[0] for column in row.description]
            assert values is not None, table
            found[table] = {c: type(v) for c, v in zip(columns, values, strict=True)}
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written")
    write(directory)
    write(directory)  # once more, after a start
    return directory


def test_what_was_written_is_found_intact(written: Path) -> None:
    check_for_damage(written, SOURCES)
    assert {t for file in ("journal.db", "outbox.db") for t in tables(written / file)} == {*TABLES}


@pytest.mark.parametrize("file", ["journal.db", "outbox.db"])
def test_any_changed_value_is_told_with_its_table_and_its_row(
    written: Path, tmp_path: Path, file: str
) -> None:
    for table, columns in tables(written / file).items():
        for column, kind in columns.items():
            for name in ("journal.db", "outbox.db"):
                shutil.copy(written / name, tmp_path / name)
            with behind_its_back(tmp_path / file) as database:
                to = _CHANGED[kind].format(column)
                first = f"(SELECT max(rowid) FROM {table})"
                database.execute(f"UPDATE {table} SET {column} = {to} WHERE rowid = {first}")
            told = f"{tmp_path / file} is damaged: .*{table}.*{column} .*; restore journal.db"
            with pytest.raises(DamagedDatabase, match=told):
                check_for_damage(tmp_path, SOURCES)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM position WHERE name = 'processed'", "'position' lacks 1 rows"),
        ("INSERT INTO opening VALUES (9, 'x')", "'opening' does not match its checksum: first 9"),
        ("UPDATE row_sum SET of = 'accepte' WHERE of = 'accepted'", "names a table 'accepte'"),
        ("UPDATE row_sum SET sum = sum + 1 WHERE of = 'accepted'", "'accepted' does not match"),
    ],
)
def test_rows_that_are_gone_or_were_not_written_are_told(
    written: Path, tmp_path: Path, statement: str, told: str
) -> None:
    for name in ("journal.db", "outbox.db"):
        shutil.copy(written / name, tmp_path / name)
    with behind_its_back(tmp_path / "journal.db") as database:
        database.execute(statement)
    with pytest.raises(DamagedDatabase, match=told):
        check_for_damage(tmp_path, SOURCES)


def test_a_directory_without_checksums_gets_them(written: Path, tmp_path: Path) -> None:
    for name in ("journal.db", "outbox.db"):
        shutil.copy(written / name, tmp_path / name)
        with behind_its_back(tmp_path / name) as database:
            database.execute("DROP TABLE row_sum")
    write(tmp_path)
    check_for_damage(tmp_path, SOURCES)
    with behind_its_back(tmp_path / "journal.db") as database:
        database.execute("UPDATE accepted SET count = count + 1")
    with pytest.raises(DamagedDatabase, match="'accepted'"):
        check_for_damage(tmp_path, SOURCES)
