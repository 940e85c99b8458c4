"""The files of journal and outbox: whose they are, and what happens when the disk is full."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from pathlib import Path

import pytest

from tests.gateway.harness import finished, outputs, undeletable
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.database import (
    DamagedDatabase,
    claim,
    connect,
    lacks_room,
    reading,
    transaction,
)
from wallaroo.gateway.journal import journal as journal_module
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox


def fill(database: sqlite3.Connection) -> None:
    """Let *database* grow no more, as on a full disk."""
    database.execute("PRAGMA max_page_count=1")  # what it has, it may keep


def clear(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA max_page_count=1000000")


def test_a_file_is_of_one_application_for_its_life(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    claim(file, "Votes")
    claim(file, "Votes")
    with pytest.raises(RuntimeFailure) as told:
        claim(file, "Word Count")
    assert str(told.value) == (
        f"{file} belongs to the application 'Votes', and this is 'Word Count'; "
        "give another --state-dir"
    )


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    claim(file, "Votes")
    database = connect(file)
    database.execute("PRAGMA user_version=7")
    database.close()
    with pytest.raises(RuntimeFailure, match="has format 7, and this version of wallaroo reads"):
        claim(file, "Votes")


def test_statements_with_triggers_write_no_temporary_files(tmp_path: Path) -> None:
    with contextlib.closing(connect(tmp_path / "journal.db")) as database:
        (store,) = database.execute("PRAGMA temp_store").fetchone()
    assert store == 2  # MEMORY


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    database = connect(file)
    database.execute("CREATE TABLE songs (name TEXT)")
    database.close()
    with pytest.raises(RuntimeFailure, match="has format 0"):
        claim(file, "Votes")
    database = connect(file)
    assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]
    database.close()


def test_a_database_that_turns_out_malformed_while_it_is_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    with contextlib.closing(connect(file)) as database:
        database.execute("CREATE TABLE word (text TEXT)")
        database.execute("INSERT INTO word VALUES ('a')")
    with file.open("r+b") as opened_file:
        opened_file.seek(32 * 1024)
        opened_file.write(bytes(range(256)))
    told = f"{re.escape(str(file))} is damaged: database disk image is malformed; restore"
    with contextlib.closing(connect(file)) as database:  # its first page is intact
        with pytest.raises(DamagedDatabase, match=told), transaction(database):
            database.execute("INSERT INTO word VALUES ('b')")
        assert not database.in_transaction
    with pytest.raises(DamagedDatabase, match=told), reading(file) as database:
        database.execute("SELECT text FROM word").fetchall()


def test_a_journal_waits_for_a_full_disk_and_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    journal.submit(0, 1, b"before")
    assert journal.flush(PATIENCE_S)
    with journal._database_lock:
        fill(journal._database)
    journal.submit(0, 1, bytes(1_000_000))
    assert not journal.flush(0.2)
    assert journal.end == 1
    with journal._database_lock:
        clear(journal._database)
    assert journal.flush(PATIENCE_S)
    assert [chunk.data for block in journal.read(0, 2) for chunk in block] == [
        *(b"before", bytes(1_000_000)),
    ]
    journal.close()


def test_deleting_waits_for_a_full_disk_and_does_not_hold_up_senders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_ROOM_PAUSE_S", 0.01)
    monkeypatch.setattr(journal_module, "lacks_room", lambda error: "no room" in str(error))
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    journal.submit(0, 1, b"first")
    assert journal.flush(PATIENCE_S)
    with undeletable(tmp_path / "journal.db"):
        journal.consume(1)
        for number in range(2, 5):
            journal.submit(0, 1, b"later")
            assert journal.flush(PATIENCE_S)
            assert journal.end == number
        assert journal.disk_bytes == 20
    wait_until(lambda: journal.disk_bytes == 15)
    journal.close()


def test_an_outbox_that_found_the_disk_full_has_all_or_nothing(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db", 1 << 30)
    large = bytes(2_000_000)
    fill(outbox._database)
    for _ in range(2):
        with pytest.raises(sqlite3.Error) as told:
            outbox.publish("run", [finished(1, outputs(b"a"), outputs(large))])
        assert lacks_room(told.value)
    clear(outbox._database)
    outbox.publish("run", [finished(1, outputs(b"a"), outputs(large))])
    first = outbox.next(0, 0, 0.0)
    assert first is not None
    second = outbox.next(0, first.position, 0.0)
    assert second is not None
    assert (first.outputs.data, second.outputs.data) == (b"a", large)
    assert outbox.undelivered == 2
    outbox.close()


def test_what_was_written_half_is_as_if_it_had_not_been(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    journal.submit(0, 1, b"whole")
    assert journal.flush(PATIENCE_S)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in tmp_path.glob("journal.db*"):
        (copy / file.name).write_bytes(file.read_bytes())
    journal.close()
    with (copy / "journal.db-wal").open("ab") as log:
        log.write(os.urandom(5_000))
    again = Journal(copy / "journal.db", JournalLimits())
    assert [chunk.data for block in again.read(0, 1) for chunk in block] == [b"whole"]
    again.submit(0, 1, b"next")
    assert again.flush(PATIENCE_S)
    assert again.end == 2
    again.close()


@pytest.mark.parametrize("error", ["UnicodeDecodeError", "OperationalError"])
def test_a_schema_that_is_no_text_is_damage_of_the_file(tmp_path: Path, error: str) -> None:
    file = tmp_path / "journal.db"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE chunk (first INTEGER)")
    statement = b"CREATE TABLE chunk" if error == "OperationalError" else b"chunk"
    data = file.read_bytes()
    flipped = statement[:-1] + bytes([statement[-1] ^ 0x80])
    file.write_bytes(data.replace(statement, flipped))
    with pytest.raises(DamagedDatabase) as told, reading(file) as database:
        database.execute("SELECT name, sql FROM sqlite_master").fetchall()
    assert str(told.value).startswith(f"{file} is damaged: ")
    assert "restore it from a copy, or remove it" in str(told.value)
