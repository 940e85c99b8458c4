"""Damaged journals and outboxes: told before anything is accepted, and set aside only if asked."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gateway.harness import outputs
from tests.helpers import PATIENCE_S
from wallaroo.cli.main import main
from wallaroo.gateway.chunks.tail import JournalTail
from wallaroo.gateway.consistency import damage
from wallaroo.gateway.consistency.damage import check_for_damage
from wallaroo.gateway.database import DamagedDatabase, reading
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.startup import take
from wallaroo.wire.records import TICK_SOURCE, Tally

SOURCES = ["lines"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Four chunks of messages in the journal, two chunks of outputs and changes in the outbox."""
    os.close(take(tmp_path, "Votes"))
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    for number, size in enumerate((2, 3, 4, 1)):
        journal.submit(0, size, b"%d" % number * 10 * size)
        assert journal.flush(PATIENCE_S)
    journal.close()
    outbox = Outbox(tmp_path / "outbox.db", 1 << 30)
    for number in (1, 2):
        made = [outputs(b"out %d" % number, to=0)]
        chunk = FinishedChunk(number, number, made, Tally(), [(0, b"changed %d" % number)])
        outbox.publish("run", [chunk])
    outbox.close()
    return tmp_path


def run_sql(file: Path, statement: str, *values: object) -> None:
    """Change a database behind the back of its owner."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        assert database.execute(statement, values).rowcount == 1


def chunks(directory: Path) -> list[tuple[int, int, int, bytes]]:
    with reading(directory / "journal.db") as journal:
        rows = journal.execute("SELECT first, count, source, data FROM chunk ORDER BY first")
        return rows.fetchall()


def letters(directory: Path) -> Sequence[tuple[str, bytes | None]]:
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    try:
        with outbox.dead_letters() as store:
            return [(one.place, one.payload) for one in store.listed(Choice(), 100)]
    finally:
        outbox.close()


def test_what_was_written_is_found_intact(directory: Path) -> None:
    check_for_damage(directory, SOURCES)


@pytest.mark.parametrize(
    "changes",
    [
        "data = CAST(replace(data, '1', '0') AS BLOB)",  # e.g. the header of a frame
        "first = 3",
        "count = 7",
        "source = 1",
        "arrived_ns = arrived_ns + 1",
        "sum = sum + 1",
    ],
)
def test_a_damaged_chunk_of_the_journal_is_told_with_its_range(
    directory: Path, changes: str
) -> None:
    run_sql(directory / "journal.db", f"UPDATE chunk SET {changes} WHERE first = 2")
    with pytest.raises(DamagedDatabase) as told:
        take(directory, "Votes", SOURCES)
    assert str(told.value).startswith(
        f"{directory / 'journal.db'} is damaged: its messages 2 to 4 do not match their checksum; "
        "restore journal.db, outbox.db and the checkpoint"
    )
    assert "or start with --skip-damaged" in str(told.value)


def test_a_damaged_chunk_is_found_when_it_is_read(directory: Path) -> None:
    journal = Journal(directory / "journal.db", JournalLimits())
    run_sql(directory / "journal.db", "UPDATE chunk SET data = x'00' WHERE first = 5")
    tail = JournalTail(directory / "journal.db")
    try:
        with pytest.raises(DamagedDatabase, match="its messages 5 to 8 do not match"):
            tail.read(0, 1 << 20)
        with pytest.raises(DamagedDatabase, match="its messages 5 to 8 do not match"):
            list(journal.read(0, 10))
        with pytest.raises(DamagedDatabase, match="its messages 5 to 8 do not match"):
            list(journal.unprocessed())
    finally:
        tail.close()
        journal.close()


def test_damaged_messages_are_set_aside_if_asked(directory: Path) -> None:
    before = chunks(directory)
    for first in (2, 5):
        run_sql(directory / "journal.db", "UPDATE chunk SET count = 90 WHERE first = ?", first)
    os.close(take(directory, "Votes", SOURCES, skip_damaged=True))
    kept = chunks(directory)
    assert kept == [before[0], (2, 7, TICK_SOURCE, b""), before[3]]
    raw = b"1" * 30 + b"2" * 40
    assert letters(directory) == [("journal.db: messages 2 to 8", raw)]
    os.close(take(directory, "Votes", SOURCES))  # nothing is damaged any more


def test_damage_at_the_ends_of_the_journal_leaves_no_gap(directory: Path) -> None:
    for first in (0, 9):
        run_sql(directory / "journal.db", "UPDATE chunk SET data = x'00' WHERE first = ?", first)
    with pytest.raises(DamagedDatabase, match=r"messages 0 to 1 \(and 1 more ranges\) do not"):
        check_for_damage(directory, SOURCES)
    check_for_damage(directory, SOURCES, skip=True)
    journal = Journal(directory / "journal.db", JournalLimits())
    try:
        read = [chunk for block in journal.read(0, 10) for chunk in block]
    finally:
        journal.close()
    assert [(chunk.first, chunk.messages) for chunk in read] == [(0, 2), (2, 3), (5, 4), (9, 1)]


@pytest.mark.parametrize(("first", "start", "end"), [(0, 0, 2), (2, 2, 5), (5, 5, 9)])
def test_a_chunk_that_is_missing_is_told_and_left_out_if_asked(
    directory: Path, first: int, start: int, end: int
) -> None:
    run_sql(directory / "journal.db", "DELETE FROM chunk WHERE first = ?", first)
    with pytest.raises(DamagedDatabase, match=f"messages {start} to {end - 1} are missing"):
        check_for_damage(directory, SOURCES)
    check_for_damage(directory, SOURCES, skip=True)
    assert letters(directory) == [(f"journal.db: messages {start} to {end - 1}", b"")]
    assert (start, end - start, TICK_SOURCE, b"") in chunks(directory)
    check_for_damage(directory, SOURCES)


def test_a_chunk_that_is_missing_is_found_when_it_is_read(directory: Path) -> None:
    journal = Journal(directory / "journal.db", JournalLimits())
    run_sql(directory / "journal.db", "DELETE FROM chunk WHERE first = 2")
    tail = JournalTail(directory / "journal.db")
    try:
        for start in (0, 2):
            with pytest.raises(LookupError, match="messages 2 to 4 are not in the journal"):
                tail.read(start, 1 << 20)
            with pytest.raises(LookupError, match="messages 2 to 4 are not in the journal"):
                list(journal.read(start, 10))
    finally:
        tail.close()
        journal.close()


def test_what_was_set_aside_half_is_kept_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(directory / "journal.db", "UPDATE chunk SET data = x'00' WHERE first = 2")

    def fail(*_values: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:  # between the two databases
        patch.setattr(damage, "row_of", fail)
        with pytest.raises(InterruptedError):
            check_for_damage(directory, SOURCES, skip=True)
    check_for_damage(directory, SOURCES, skip=True)
    assert letters(directory) == [("journal.db: messages 2 to 4", b"\0")]


@pytest.mark.parametrize("count", [-1, 0, 1 << 40])
def test_a_damaged_size_at_the_end_does_not_count(directory: Path, count: int) -> None:
    run_sql(directory / "journal.db", "UPDATE chunk SET count = ? WHERE first = 9", count)
    check_for_damage(directory, SOURCES, skip=True)
    assert letters(directory) == [("journal.db: messages 9 to 18", b"3" * 10)]


def test_a_replay_leaves_out_what_was_damaged(directory: Path) -> None:
    run_sql(directory / "journal.db", "UPDATE chunk SET data = x'00' WHERE first = 2")
    check_for_damage(directory, SOURCES, skip=True)
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    with outbox.dead_letters() as store:
        assert store.begin_replay(Choice(), 1 << 30, 1) is None
    outbox.close()


@pytest.mark.parametrize("changes", ["data = x'00'", "lengths = x'05000001'", "sink = 1"])
def test_damaged_outputs_are_told_and_set_aside_if_asked(directory: Path, changes: str) -> None:
    file = directory / "outbox.db"
    run_sql(file, f"UPDATE piece SET {changes} WHERE id = 1")
    with pytest.raises(DamagedDatabase) as told:
        check_for_damage(directory, SOURCES)
    assert str(told.value).startswith(f"{file} is damaged: the outputs from number 1 on for sink 0")
    check_for_damage(directory, SOURCES, skip=True)
    ((place, _),) = letters(directory)
    assert place == "outbox.db: sink 0, 1 outputs from number 1 on"
    outbox = Outbox(file, 1 << 30)
    delivery = outbox.next(0, 0, 0.0)
    assert delivery is not None
    assert (delivery.number, delivery.outputs.data, outbox.undelivered) == (2, b"out 2", 1)
    outbox.close()


def test_outputs_that_are_missing_are_told_and_set_aside_if_asked(directory: Path) -> None:
    run_sql(directory / "outbox.db", "DELETE FROM piece WHERE id = 1")
    with pytest.raises(DamagedDatabase, match="the outputs from number 1 on for sink 0"):
        check_for_damage(directory, SOURCES)
    check_for_damage(directory, SOURCES, skip=True)
    assert letters(directory) == [("outbox.db: sink 0, 1 outputs from number 1 on", b"")]
    check_for_damage(directory, SOURCES)


def test_damaged_outputs_are_found_when_they_are_read(directory: Path) -> None:
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    run_sql(directory / "outbox.db", "UPDATE piece SET data = x'00' WHERE id = 1")
    with pytest.raises(DamagedDatabase, match="the outputs from number 1 on for sink 0"):
        outbox.next(0, 0, 0.0)
    outbox.close()


@pytest.mark.parametrize(
    "changes", ["record = x'00'", "chunk = 3", "partition = 1", "run = 'other'", "more = 1"]
)
def test_damaged_changes_of_state_cannot_be_set_aside(directory: Path, changes: str) -> None:
    run_sql(directory / "outbox.db", f"UPDATE change SET {changes} WHERE chunk = 2")
    for skip in (False, True):
        with pytest.raises(DamagedDatabase, match="the changes of state in partition") as told:
            check_for_damage(directory, SOURCES, skip=skip)
        assert "--skip-damaged" not in str(told.value)


def test_damaged_changes_are_found_when_they_are_read(directory: Path) -> None:
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    run_sql(directory / "outbox.db", "UPDATE change SET record = x'00' WHERE chunk = 2")
    with outbox.chunks() as table:
        assert list(table.changes("run", 0, 2)) == []
    with outbox.chunks() as table:
        with pytest.raises(DamagedDatabase, match=r"outbox\.db is damaged"):
            table.changes("run", 0, 0)
        with pytest.raises(DamagedDatabase, match=r"outbox\.db is damaged"):
            table.all_changes("run", 0)
    outbox.close()


@pytest.mark.parametrize("name", ["journal.db", "outbox.db"])
@pytest.mark.parametrize("place", [0, 32 * 1024])
def test_a_malformed_database_is_named(directory: Path, name: str, place: int) -> None:
    file = directory / name
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(bytes(range(256)) * 40)
    with pytest.raises(DamagedDatabase) as told:
        take(directory, "Votes", SOURCES)
    assert str(told.value).startswith(f"{file} is damaged: ")
    assert "restore journal.db, outbox.db and the checkpoint" in str(told.value)


def test_a_replay_of_what_was_damaged_is_refused(directory: Path) -> None:
    run_sql(directory / "journal.db", "UPDATE chunk SET data = x'00' WHERE first = 2")
    check_for_damage(directory, SOURCES, skip=True)
    command = ["dead-letters", "replay", "1", "--state-dir", str(directory)]
    result = CliRunner().invoke(main, command)
    assert "dead letter 1 was damaged on disk; it cannot be replayed" in result.output
