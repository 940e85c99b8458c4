"""The journal: order, restarts, limits, ranges."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import undeletable
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.gateway import database
from wallaroo.gateway.journal import journal as module
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits, WriteBuffer
from wallaroo.system.disk_space import reserved_bytes
from wallaroo.wire.records import Block


@contextlib.contextmanager
def opened(directory: Path, limits: JournalLimits | None = None) -> Iterator[Journal]:
    journal = Journal(directory / "journal.db", limits or JournalLimits())
    try:
        yield journal
    finally:
        journal.close()


def fill(journal: Journal, *sizes: int, count: int = 1) -> None:
    """Hand in a chunk of each of *sizes* bytes, with *count* messages."""
    for number, size in enumerate(sizes):
        journal.submit(number % 2, count, bytes([number % 256]) * size)
    assert journal.flush(PATIENCE_S)


def chunks(journal: Journal, start: int, end: int) -> list[Block]:
    return [chunk for block in journal.read(start, end) for chunk in block]


def test_messages_are_read_in_the_order_they_were_handed_in(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.submit(1, 3, b"abc")
        journal.submit(0, 1, b"d")
        journal.submit(1, 2, b"ef")
        assert journal.flush(PATIENCE_S)
        read = chunks(journal, 0, 6)
    assert [(c.first, c.messages, c.source, c.data) for c in read] == [
        *((0, 3, 1, b"abc"), (3, 1, 0, b"d"), (4, 2, 1, b"ef")),
    ]
    assert [c.arrived_ns for c in read] == sorted(c.arrived_ns for c in read)


def test_what_goes_on_with_a_stream_at_once_is_one_block() -> None:
    times = iter([0, 1_000_000, 1_000_001, 1_000_001, 1_000_001, 1_000_001])
    buffer = WriteBuffer(JournalLimits(), 0, lambda: next(times))
    one, other = StreamName(0, "one"), StreamName(0, "other")
    for data, position in (
        (b"a", (one, 1)),
        (b"bc", (one, 3)),  # a millisecond later: the same chunk
        (b"d", (one, 4)),  # more than that
        (b"e", (other, 1)),
        (b"f", None),
        (b"g", (one, 5)),
    ):
        buffer.add(0, len(data), data, position)
    assert [(c.count, bytes(c.data), c.stream_position, c.arrived_ns) for c in buffer.take()] == [
        (3, b"abc", (one, 3), 0),
        (1, b"d", (one, 4), 1_000_001),
        (1, b"e", (other, 1), 1_000_001),
        (1, b"f", None, 1_000_001),
        (1, b"g", (one, 5), 1_000_001),
    ]
    assert buffer.waiting_bytes == 7


def test_new_messages_leave_the_disk_what_old_ones_need_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = reserved_bytes(tmp_path)
    monkeypatch.setattr(module, "_ROOM_PAUSE_S", 0.01)
    monkeypatch.setattr(database, "free_bytes", lambda _place: free)
    with opened(tmp_path) as journal, capture_logs() as logs:
        fill(journal, *[100_000] * 20)
        free -= 1
        journal.submit(0, 1, b"x" * 100_000)
        wait_until(lambda: logs, "the warning")
        assert journal.end == 20
        journal.consume(10)  # which gives the file room
        assert journal.flush(PATIENCE_S)
        assert journal.end == 21
        journal.submit(0, 1, b"x" * 3_000_000)
        wait_until(lambda: len(logs) == 3, "another warning")
        free += 1
        assert journal.flush(PATIENCE_S)
    assert [log["event"] for log in logs] == ["journal waits", "journal resumed"] * 2
    assert "of the disk are free" in logs[0]["reason"]


def test_what_was_accepted_survives_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 20, 30)
        before = chunks(journal, 0, 3)
    with opened(tmp_path) as journal:
        assert chunks(journal, 0, 3) == before
        assert (journal.end, journal.disk_bytes, journal.accepted) == (3, 60, {0: 2, 1: 1})
        fill(journal, 5)
        assert journal.end == 4


def test_closing_accepts_what_was_handed_in(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for _ in range(1_000):
            journal.submit(0, 1, b"x")
    with opened(tmp_path) as journal:
        assert journal.end == 1_000


def test_what_is_consumed_is_gone_and_its_numbers_are_never_given_again(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 20, 30)
        journal.consume(3)
        wait_until(lambda: journal.disk_bytes == 0)
        assert (journal.end, journal.consumed) == (3, 3)
    with opened(tmp_path) as journal:
        assert (journal.end, journal.consumed) == (3, 3)
        fill(journal, 7)
        assert [chunk.first for chunk in chunks(journal, 3, 4)] == [3]


def test_much_is_deleted_in_slices_and_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TRIM_BYTES", 20)
    with opened(tmp_path) as journal:
        fill(journal, *[10] * 9, count=3)
        journal.consume(21)
        wait_until(lambda: journal.disk_bytes == 20)
        assert [chunk.first for chunk in chunks(journal, 21, 27)] == [21, 24]
    with opened(tmp_path) as journal:
        assert (journal.end, journal.consumed, journal.disk_bytes) == (27, 21, 20)


def test_what_was_consumed_and_not_deleted_yet_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "lacks_room", lambda error: "no room" in str(error))
    with opened(tmp_path) as journal:
        fill(journal, 10, 20, 30)
        with undeletable(tmp_path / "journal.db"):
            journal.consume(2)
            with pytest.raises(LookupError, match="those before 2 have been deleted"):
                chunks(journal, 0, 3)
            assert journal.disk_bytes == 60


def test_consuming_less_than_before_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 20, 30)
        journal.consume(3)
        journal.consume(1)
        assert journal.consumed == 3
        wait_until(lambda: journal.disk_bytes == 0)
    with opened(tmp_path) as journal:
        assert (journal.end, journal.consumed) == (3, 3)


def test_reading_what_was_consumed_is_an_error_with_a_sentence(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 20, 30)
        journal.consume(2)
        with pytest.raises(LookupError, match="from 1 on were requested, but those before 2"):
            chunks(journal, 1, 3)
        assert len(chunks(journal, 2, 3)) == 1


def test_the_backlog_is_what_no_batch_has_processed(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 1, 1, count=5)
        assert journal.backlog == 10
        journal.note_processed(5)
        assert journal.backlog == 5
    with opened(tmp_path) as journal:
        assert journal.backlog == 5


def test_what_is_processed_is_not_ahead_though_it_stays_on_disk(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 100, 100, 100)  # the second is of another source
        assert not journal.wait_for_room(0, 200, 0.0)
        assert journal.wait_for_room(0, 201, 0.0)
        assert journal.wait_for_room(1, 101, 0.0)
    with opened(tmp_path) as journal:
        assert not journal.wait_for_room(0, 200, 0.0)
        found: list[bool] = []
        waiting = threading.Thread(
            target=lambda: found.append(journal.wait_for_room(0, 1, PATIENCE_S))
        )
        waiting.start()
        journal.note_published(2)
        assert not found, "a part of it is not processed"
        journal.note_published(3)
        waiting.join(PATIENCE_S)
        assert found == [True]
        assert journal.disk_bytes == 300


def test_processing_a_batch_again_does_not_make_a_backlog(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 1, 1)
        journal.note_processed(2)
        journal.note_processed(1)
        assert journal.backlog == 0
    with opened(tmp_path) as journal:
        assert journal.backlog == 0


def test_a_full_journal_says_so_and_tells_when_there_is_room(tmp_path: Path) -> None:
    room = threading.Event()
    limits = JournalLimits(disk_bytes=100, memory_bytes=1_000)
    journal = Journal(tmp_path / "journal.db", limits, on_room=room.set)
    try:
        assert journal.submit(0, 1, bytes(60))
        assert not journal.submit(0, 1, bytes(60))
        assert journal.flush(PATIENCE_S)
        assert not room.is_set()
        journal.consume(1)
        assert room.wait(PATIENCE_S)
        assert journal.submit(0, 1, b"x")
    finally:
        journal.close()


def test_messages_that_wait_for_the_disk_are_bounded_too(tmp_path: Path) -> None:
    room = threading.Event()
    limits = JournalLimits(disk_bytes=10_000, memory_bytes=100)
    journal = Journal(tmp_path / "journal.db", limits, on_room=room.set)
    try:
        assert not journal.submit(0, 1, bytes(200))
        assert room.wait(PATIENCE_S)
    finally:
        journal.close()


def test_there_is_room_again_once_for_each_time_it_was_full(tmp_path: Path) -> None:
    told: list[int] = []
    limits = JournalLimits(disk_bytes=100, memory_bytes=1_000)
    journal = Journal(tmp_path / "journal.db", limits, on_room=lambda: told.append(1))
    try:
        for end in range(1, 4):
            assert not journal.submit(0, 1, bytes(150))
            assert journal.flush(PATIENCE_S)
            journal.consume(end)
            journal.consume(end)
            wait_until(lambda due=end: len(told) == due)  # type: ignore[misc]
    finally:
        journal.close()
    assert len(told) == 3


def test_a_journal_that_cannot_write_tells(tmp_path: Path) -> None:
    failures: list[Exception] = []
    path = tmp_path / "journal.db"
    journal = Journal(path, JournalLimits(), on_failure=failures.append)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE chunk")
        journal.submit(0, 1, b"x")
        wait_until(lambda: failures)
    assert isinstance(failures[0], sqlite3.Error)
    assert journal.end == 0
    journal.close()


def test_a_gateway_that_stops_keeps_no_call_waiting_for_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        waiting = threading.Thread(target=lambda: journal.wait_beyond(0, 10 * PATIENCE_S))
        waiting.start()
        journal.end_waits()
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
        assert not journal.wait_accepted(0, 1, 10 * PATIENCE_S)


def test_whoever_waits_for_messages_gets_them(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        waiting = threading.Thread(target=journal.wait_beyond, args=(0, PATIENCE_S))
        waiting.start()
        fill(journal, 1)
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
        assert journal.wait_accepted(0, 1, PATIENCE_S)
        assert not journal.wait_accepted(0, 2, 0.0)


def test_closing_does_not_pretend_that_messages_came(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        answers: list[bool] = []
        waiting = threading.Thread(
            target=lambda: answers.append(journal.wait_accepted(0, 1, PATIENCE_S))
        )
        waiting.start()
    waiting.join(PATIENCE_S)
    assert answers == [False]


def test_a_batch_reaches_as_far_as_its_bytes_allow(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 10, 10, 10, count=3)
        assert journal.blocks.reach(0, 10, 1_000) == 3
        assert journal.blocks.reach(0, 29, 1_000) == 6
        assert journal.blocks.reach(3, 20, 1_000) == 9
        assert journal.blocks.reach(0, 1_000, 1_000) == 12
        assert journal.blocks.reach(12, 1_000, 1_000) == 12


def test_a_batch_has_no_more_messages_than_it_may(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 10, 10, 10, count=3)
        assert journal.blocks.reach(0, 1_000, 6) == 6
        assert journal.blocks.reach(3, 1_000, 8) == 9
        assert journal.blocks.reach(0, 1_000, 1) == 3


def test_a_batch_takes_one_chunk_at_least(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 1_000, 10)
        assert journal.blocks.reach(0, 1, 1_000) == 1


def test_a_read_comes_in_blocks_of_some_mib(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, *[1024 * 1024] * 10)
        blocks = list(journal.read(0, 10))
    assert [chunk.first for block in blocks for chunk in block] == list(range(10))
    assert max(sum(len(chunk.data) for chunk in block) for block in blocks) <= 5 * 1024 * 1024
