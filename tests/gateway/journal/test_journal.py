"""The journal: order, restarts, limits, ranges."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import finished, outputs, publish
from tests.gateway.harness import opened as opened_store
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer as module
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.entries import MESSAGES
from wallaroo.gateway.journal import blocks
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.lag import Ahead
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits, Reached, WriteBuffer
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.scan import scan
from wallaroo.gateway.store import Store
from wallaroo.system.disk_space import reserved_bytes
from wallaroo.wire.records import Block


@contextlib.contextmanager
def opened(directory: Path, limits: JournalLimits | None = None) -> Iterator[Journal]:
    with opened_store(directory, limits) as store:
        yield store.journal


def fill(journal: Journal, *sizes: int, count: int = 1) -> None:
    """Hand in a chunk of each of *sizes* bytes, with *count* messages."""
    for number, size in enumerate(sizes):
        journal.submit(number % 2, count, bytes([number % 256]) * size)
    assert journal.flush(PATIENCE_S)


def chunks(journal: Journal, start: int, end: int) -> list[Block]:
    return list(journal.read(start, end))


@contextlib.contextmanager
def small_segments(size: int = 100_000) -> Iterator[None]:
    """Let segments of logs be small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Log", partial(Log, segment_bytes=size))
        yield


@contextlib.contextmanager
def memory_of(size: int) -> Iterator[None]:
    """Let few messages be in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_MEMORY_BYTES", size)
        yield


def process(store: Store, chunk: int, end: int) -> None:
    """Publish a chunk that ends with offset *end*."""
    publish(store, finished(chunk)._replace(end=end))
    store.journal.note_published(end)


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
    buffer = WriteBuffer(JournalLimits(), Ahead(), lambda: next(times))
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
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(module, "free_bytes", lambda _place: free)
    with opened_store(tmp_path) as store, capture_logs() as logs:
        journal = store.journal
        fill(journal, *[100_000] * 20)
        free -= 1
        time.sleep(0.02)
        journal.submit(0, 1, b"x" * 100_000)
        wait_until(lambda: logs, "the warning")
        assert journal.end == 20
        publish(store, finished(1, outputs(b"out")))  # what lets messages leave is written
        store.outbox.delivered(0, 1)
        journal.consume(10)
        assert not journal.flush(0.1)
        assert journal.end == 20
        assert journal.disk_bytes < 2_000_000
        free += 1
        assert journal.flush(PATIENCE_S)
        assert journal.end == 21
        free -= 1
        time.sleep(0.02)
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


def test_segments_of_the_log_go_once_all_of_their_messages_are_consumed(tmp_path: Path) -> None:
    def segments() -> int:
        journal.alarm.set(None)  # a turn
        return len(list((tmp_path / LOG).glob("log-*")))

    with small_segments(), opened(tmp_path) as journal:
        for _ in range(9):
            fill(journal, 40_000, count=3)
        before = segments()
        assert before > 3
        journal.consume(21)
        fill(journal, 40_000, count=3)
        wait_until(lambda: segments() < before, "the release of segments")
        assert [chunk.first for chunk in chunks(journal, 21, 30)] == [21, 24, 27]
    with opened(tmp_path) as journal:
        assert (journal.end, journal.consumed) == (30, 21)
        assert [chunk.first for chunk in chunks(journal, 21, 30)] == [21, 24, 27]


def test_what_was_consumed_and_not_deleted_yet_is_not_read(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 10, 20, 30)
        journal.consume(2)
        with pytest.raises(LookupError, match="those before 2 have been deleted"):
            chunks(journal, 0, 3)
    with opened(tmp_path) as journal, pytest.raises(LookupError, match="those before 2"):
        chunks(journal, 0, 3)


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


def test_the_backlog_is_what_no_chunk_has_processed(tmp_path: Path) -> None:
    with opened_store(tmp_path) as store:
        fill(store.journal, 1, 1, count=5)
        assert store.journal.backlog == 10
        process(store, 1, 5)
        assert store.journal.backlog == 5
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


def test_processing_a_chunk_again_does_not_make_a_backlog(tmp_path: Path) -> None:
    with opened_store(tmp_path) as store:
        fill(store.journal, 1, 1)
        process(store, 1, 2)
        store.journal.note_published(1)
        assert store.journal.backlog == 0
    with opened(tmp_path) as journal:
        assert journal.backlog == 0


def test_a_full_journal_says_so_and_tells_when_there_is_room(tmp_path: Path) -> None:
    room = threading.Event()
    limits = JournalLimits(disk_bytes=1_000_000, memory_bytes=10_000_000)
    with opened(tmp_path, limits) as journal:
        journal.on_room = room.set
        assert journal.submit(0, 1, bytes(600_000))
        assert not journal.submit(0, 1, bytes(600_000))
        assert journal.flush(PATIENCE_S)
        assert not room.is_set()
        journal.consume(1)
        assert room.wait(PATIENCE_S)
        assert journal.submit(0, 1, b"x")


def test_messages_that_wait_for_the_disk_are_bounded_too(tmp_path: Path) -> None:
    room = threading.Event()
    limits = JournalLimits(disk_bytes=10_000, memory_bytes=100)
    with opened(tmp_path, limits) as journal:
        journal.on_room = room.set
        assert not journal.submit(0, 1, bytes(200))
        assert room.wait(PATIENCE_S)


def test_there_is_room_again_once_for_each_time_it_was_full(tmp_path: Path) -> None:
    told: list[int] = []
    limits = JournalLimits(disk_bytes=100, memory_bytes=1_000)
    with opened(tmp_path, limits) as journal:
        journal.on_room = lambda: told.append(1)
        for end in range(1, 4):
            assert not journal.submit(0, 1, bytes(150))
            assert journal.flush(PATIENCE_S)
            journal.consume(end)
            journal.consume(end)
            wait_until(lambda due=end: len(told) == due)  # type: ignore[misc]
    assert len(told) == 3


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_journal_that_cannot_write_tells_and_accepts_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """What is on disk after a failed sync is unknown, though the next one may succeed."""
    failures: list[Exception] = []
    accepted: list[object] = []
    with opened_store(tmp_path, on_failure=failures.append) as store:
        journal = store.journal
        journal.on_accepted = accepted.append

        def fail(*_arguments: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            if call == "fdatasync":
                patch.setattr(os, call, fail)
            patch.setattr(store.writer.log._disk, call, fail)
            journal.submit(0, 1, b"x", (StreamName(0, "s"), 1))
            wait_until(lambda: failures)
        journal.submit(0, 1, b"y", (StreamName(0, "s"), 2))
        assert not journal.flush(0.1)
    assert all(isinstance(failure, OSError) for failure in failures)
    assert (journal.end, accepted) == (0, [])


def test_a_gateway_that_stops_keeps_no_call_waiting_for_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        waiting = threading.Thread(target=lambda: journal.wait_accepted(0, 1, 10 * PATIENCE_S))
        waiting.start()
        journal.end_waits()
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
        assert not journal.wait_accepted(0, 1, 10 * PATIENCE_S)


def test_whoever_waits_for_messages_gets_them(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        waiting = threading.Thread(target=journal.wait_accepted, args=(0, 1, PATIENCE_S))
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
            target=lambda: answers.append(journal.wait_accepted(0, 1, 10 * PATIENCE_S))
        )
        waiting.start()
    waiting.join(PATIENCE_S)
    assert answers == [False]


@pytest.mark.parametrize("anew", [False, True])
def test_a_chunk_reaches_until_it_has_enough_bytes(tmp_path: Path, anew: bool) -> None:
    """From memory, and from the log."""

    def reach(journal: Journal, start: int, most_bytes: int) -> int:
        taken = journal.take(start, most_bytes)
        assert [block.first for block in taken] == list(range(start, 12, 3))[: len(taken)]
        return start + sum(block.messages for block in taken)

    with opened(tmp_path) as journal:
        fill(journal, 10, 10, 10, 10, count=3)
        if not anew:
            assert reach(journal, 0, 11) == 6
            assert reach(journal, 6, 1_000) == 12
    with opened(tmp_path) as journal:
        assert reach(journal, 0, 10) == 3
        assert reach(journal, 0, 11) == 6
        assert reach(journal, 3, 20) == 9
        assert reach(journal, 0, 1_000) == 12
        assert reach(journal, 12, 1_000) == 12


def test_a_chunk_takes_one_block_at_least(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        fill(journal, 1_000, 10)
        (block,) = journal.take(0, 1)
        assert len(block.data) == 1_000


def test_what_is_handed_out_in_parts_is_complete_and_in_order(tmp_path: Path) -> None:
    """Whether it is in memory, or there was too much for that, or both."""
    with memory_of(3_000_000), opened(tmp_path) as journal:
        reached, sent = 0, 0
        for turn in range(12):
            for _ in range(turn % 5):
                journal.submit(0, 1, b"%06d" % sent * 100_000)
                sent += 1
            assert journal.flush(PATIENCE_S)
            if turn % 3 == 2:
                for block in journal.take(reached, 1_500_000):
                    assert (block.first, block.data[:6]) == (reached, b"%06d" % reached)
                    reached += 1
        while taken := journal.take(reached, 1_500_000):
            for block in taken:
                assert (block.first, block.data[:6]) == (reached, b"%06d" % reached)
                reached += 1
    assert reached == sent > 20


def test_a_position_is_not_known_without_the_messages_before_it(tmp_path: Path) -> None:
    """A snapshot before a record that is torn off must not say what only the record says."""
    directory = tmp_path / "state"
    directory.mkdir()
    with opened_store(directory) as store:
        fill(store.journal, 10)
        for number in range(2):
            with store.writer.changed:  # the next record is the first of a segment
                store.writer.log._limit = 0
            key = KeyedRequest(0, b"key %d" % number, b"body", 1)
            position = (StreamName(0, "s"), number + 1)
            reached = Reached("lines", b"%d" % number)
            store.journal.submit(0, 1, b"x" * 10, position, reached, key)
            assert store.journal.flush(PATIENCE_S)
        shutil.copytree(directory, tmp_path / "copy")
    (tmp_path / "copy/log-mark").unlink()
    *_, last = sorted((tmp_path / "copy" / LOG).glob("log-*"))
    records = [one for one in scan(tmp_path / "copy" / LOG) if one.kind == MESSAGES]
    place = last.read_bytes().index(bytes(records[-1].payload))
    with last.open("r+b") as file:
        file.truncate(place)
    with opened_store(tmp_path / "copy") as store:
        assert store.journal.end == 2
        assert store.journal.reached("lines") == b"0"
        assert list(store.journal.request_keys(0)) == [b"key 0"]
        assert store.journal.stream_positions.last(StreamName(0, "s")) == 1


def test_messages_after_a_released_segment_are_read_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before them, whose places were known, are all consumed and gone."""
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
    with small_segments(4_000), memory_of(0), opened_store(tmp_path) as store:
        journal = store.journal
        for chunk in range(1, 60):
            end = journal.end
            fill(journal, 100)
            assert [block.first for block in chunks(journal, end, journal.end)] == [end]
            process(store, chunk, journal.end)
            journal.consume(journal.end)
            store.outbox.forget("run", chunk)
