"""A gateway's files: whose they are, and what happens when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import finished, opened, outputs, publish
from tests.gateway.log_files import places, segments
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.database import DamagedDatabase, connect, reading, transaction
from wallaroo.gateway.entries import OUTPUTS
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.store import Store


@contextlib.contextmanager
def full(store: Store, *calls: str) -> Iterator[None]:
    """Let the disk of a store's log take no more, by these calls."""

    def refuse(*_arguments: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        for call in calls:
            patch.setattr(store.writer.log._disk, call, refuse)
        yield


def test_a_log_is_of_one_application_for_its_life(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path, application="Votes"):
            pass
    with pytest.raises(RuntimeFailure) as told, opened(tmp_path, application="Word Count"):
        pass
    assert str(told.value) == (
        f"{tmp_path / LOG} belongs to the application 'Votes', and this is 'Word Count'; "
        "give another --state-dir"
    )
    with opened(tmp_path):  # commands need not know it
        pass
    with opened(tmp_path, application="Votes"):
        pass


def test_a_log_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "FORMAT", 7)
        with opened(tmp_path, application="Votes"):
            pass
    with (
        pytest.raises(RuntimeFailure, match="has format 7, and this version of wallaroo reads"),
        opened(tmp_path, application="Votes"),
    ):
        pass


def test_a_directory_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    told = "journal.db was written by an earlier version of wallaroo"
    with pytest.raises(RuntimeFailure, match=told), opened(tmp_path):
        pass
    assert not (tmp_path / LOG).exists()


def test_a_database_that_turns_out_malformed_while_it_is_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "letters.db"
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


@pytest.mark.parametrize("call", ["pwritev", "create", "rename"])
def test_a_journal_waits_for_a_full_disk_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Within a segment, and where another one begins."""
    monkeypatch.setattr(writer, "_RETRY_S", 0.01)
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=100_000))
    with opened(tmp_path) as store, capture_logs() as logs:
        journal = store.journal
        journal.submit(0, 1, b"before")
        assert journal.flush(PATIENCE_S)
        with full(store, call):
            journal.submit(0, 1, bytes(1_000_000))
            journal.submit(0, 1, b"after")
            assert not journal.flush(0.2)
            assert journal.end == 1
        assert journal.flush(PATIENCE_S)
        read = [block.data for block in journal.read(0, 3)]
        assert read == [b"before", bytes(1_000_000), b"after"]
    assert [log["event"] for log in logs] == ["log waits", "log resumed"]
    with opened(tmp_path) as store:
        assert [block.data for block in store.journal.read(0, 3)] == read


def test_a_full_disk_is_freed_of_what_is_not_needed_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_RETRY_S", 0.01)
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=100_000))
    with opened(tmp_path) as store:
        journal = store.journal
        for _ in range(10):
            journal.submit(0, 1, bytes(90_000))
            assert journal.flush(PATIENCE_S)
        before = len(segments(tmp_path))
        with full(store, "pwritev"):
            journal.submit(0, 1, b"waits")
            assert not journal.flush(0.1)
            journal.consume(8)
            wait_until(lambda: len(segments(tmp_path)) < before - 4, "the release of segments")
        assert journal.flush(PATIENCE_S)
        assert [block.first for block in journal.read(8, 11)] == [8, 9, 10]
    with opened(tmp_path) as store:
        assert [block.first for block in store.journal.read(8, 11)] == [8, 9, 10]


def test_what_is_released_on_a_full_disk_is_not_missed_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes stay until the log says that they are forgotten; outputs that are gone were sent."""
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=100_000))
    monkeypatch.setattr(store_module, "_CARRIED_BYTES", 0)
    state, copy = tmp_path / "state", tmp_path / "copy"
    state.mkdir()
    with opened(state) as store:
        for number in range(1, 4):
            publish(store, finished(number, outputs(bytes(90_000))))
        for number in range(4, 7):
            publish(store, finished(number, change=bytes(90_000)))
        with full(store, "pwritev"):
            store.outbox.forget("run", 6)
            store.outbox.delivered(0, 3)
            store.journal.submit(0, 1, b"waits")
            wait_until(lambda: store.writer.is_stuck, "the disk to be full")
            wait_until(lambda: not places(state, OUTPUTS), "the release of segments")
            with store.writer.changed:  # all that may go is gone
                shutil.copytree(state, copy)
    with opened(copy) as store:
        assert len(list(store.outbox.changes("run", 3))) == 3
        assert (store.outbox.delivered_to(0), store.outbox.published_to(0)) == (3, 3)
        publish(store, finished(7, outputs(b"next")))
        delivery = store.outbox.next(0, 3, 0.0)
        assert delivery is not None
        assert delivery.number == 4


def test_an_outbox_that_found_the_disk_full_has_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_RETRY_S", 0.01)
    large = bytes(2_000_000)
    durable = threading.Event()
    with opened(tmp_path) as store:
        outbox = store.outbox
        with full(store, "pwritev"):
            chunk = finished(1, outputs(b"a"), outputs(large))
            outbox.publish("run", [chunk], on_durable=durable.set)
            assert not durable.wait(0.2)
            assert store.writer.is_stuck
            assert outbox.next(0, 0, 0.0) is None
            assert outbox.undelivered == 0
        assert durable.wait(PATIENCE_S)
        first = outbox.next(0, 0, 0.0)
        assert first is not None
        second = outbox.next(0, first.position, 0.0)
        assert second is not None
        assert (first.outputs.data, second.outputs.data) == (b"a", large)
        assert outbox.undelivered == 2


def test_a_store_that_is_closed_on_a_full_disk_has_what_was_accepted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.journal.submit(0, 1, b"accepted")
        assert store.journal.flush(PATIENCE_S)
        with full(store, "pwritev", "create"):
            store.journal.submit(0, 1, b"not accepted")
            assert not store.journal.flush(0.1)
            store.close()
    with opened(tmp_path) as store:
        assert [block.data for block in store.journal.read(0, store.journal.end)] == [b"accepted"]


def test_what_was_written_half_is_as_if_it_had_not_been(tmp_path: Path) -> None:
    directory, copy = tmp_path / "state", tmp_path / "copy"
    directory.mkdir()
    with opened(directory) as store:
        store.journal.submit(0, 1, b"whole")
        assert store.journal.flush(PATIENCE_S)
        shutil.copytree(directory, copy)
    (file,) = segments(copy)
    with file.open("ab") as log:
        log.write(os.urandom(5_000))
    for end in (2, 3):
        with opened(copy) as store:
            store.journal.submit(0, 1, b"next")
            assert store.journal.flush(PATIENCE_S)
            assert store.journal.end == end
            read = [block.data for block in store.journal.read(0, end)]
            assert read == [b"whole", *[b"next"] * (end - 1)]


@pytest.mark.parametrize("error", ["UnicodeDecodeError", "OperationalError"])
def test_a_schema_that_is_no_text_is_damage_of_the_file(tmp_path: Path, error: str) -> None:
    file = tmp_path / "letters.db"
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
