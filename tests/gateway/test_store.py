"""What is published of a query is told only by the log that has it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.gateway.harness import opened, outputs, publish
from tests.gateway.log_files import flip, places, segments
from tests.helpers import wait_until
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.entries import PUBLISHED, published_head
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import DamagedLog
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.reading import published_changes
from wallaroo.wire.records import Tally


def chunk(number: int, *changes: tuple[int, bytes]) -> FinishedChunk:
    return FinishedChunk(number, number, (), Tally(), changes)


def first_chunk(directory: Path) -> int:
    """Number of the first published chunk that is in the log."""
    return published_head(places(directory, PUBLISHED)[0].record.payload).chunk


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that has published three chunks of a query."""
    with opened(tmp_path) as store:
        publish(store, chunk(1, (0, b"one")), chunk(2, (1, b"two"), (0, b"three")))
        publish(store, chunk(3))
    return tmp_path / LOG


def test_changes_of_all_partitions_come_in_order(log: Path) -> None:
    assert published_changes(log, "run", 0) == [b"one", b"two", b"three"]
    assert published_changes(log, "run", 1) == [b"two", b"three"]
    assert published_changes(log, "run", 3) == []


def test_a_log_that_has_published_less_or_something_else_does_not_know(log: Path) -> None:
    assert published_changes(log, "run", 4) is None
    assert published_changes(log, "another", 0) is None
    assert published_changes(log.with_name("none"), "run", 0) is None


def test_a_log_that_has_published_nothing_knows_that(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert published_changes(tmp_path / LOG, "run", 0) == []
    assert published_changes(tmp_path / LOG, "run", 1) is None


def test_a_log_in_use_is_read(log: Path) -> None:
    with opened(log.parent) as store:
        publish(store, chunk(4, (1, b"four")))
        assert published_changes(log, "run", 3) == [b"four"]
        store.outbox.forget("run", 4)
        store.writer.flush()
        assert published_changes(log, "run", 4) == []


def test_changes_are_not_told_in_part(tmp_path: Path) -> None:
    """Whoever has a copy of the state from before may ask for what is gone since."""
    log = tmp_path / LOG
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "Log", partial(Log, segment_bytes=2_000))
        patch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
        with opened(tmp_path) as store:
            for number in range(1, 6):
                publish(store, chunk(number, (0, b"%d" % number * 1_000)))
            before = len(segments(tmp_path))
            store.outbox.forget("run", 3)
            store.journal.alarm.set(None)
            wait_until(lambda: len(segments(tmp_path)) < before, "the release of segments")
            assert published_changes(log, "run", 3) == [b"4" * 1_000, b"5" * 1_000]
            assert published_changes(log, "run", 0) is None
            store.outbox.forget("run", 5)
            for number in range(6, 10):
                publish(store, chunk(number)._replace(outputs=[outputs(b"x" * 2_000)]))
                store.outbox.delivered(0, number)
            wait_until(lambda: first_chunk(tmp_path) > 5, "the release of segments")
            assert published_changes(log, "run", 3) is None
            assert published_changes(log, "run", 9) == []


def test_segments_are_removed_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=2_000))
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
    store = store_module.Store(tmp_path, schedule=lambda: None)
    for number in range(1, 30):
        store.outbox.publish("run", [chunk(number, (0, bytes(500)))])
        store.turn()
    store.outbox.forget("run", 29)
    left = [len(segments(tmp_path))]

    def is_alone() -> bool:
        store.turn()
        left.append(len(segments(tmp_path)))
        return left[-1] == 1

    wait_until(is_alone, "the release of segments")
    store.close()
    assert left[0] > 5
    assert all(before - after in {0, 1} for before, after in pairwise(left))


def test_changes_that_are_damaged_are_not_left_out(log: Path) -> None:
    with opened(log.parent) as store:
        publish(store, chunk(4, (1, b"four")))
        store.outbox.forget("run", 2)
    with opened(log.parent) as store:
        publish(store, chunk(5, (1, b"five")))
    assert published_changes(log, "run", 2) == [b"four", b"five"]
    *_, last, _ = places(log.parent, PUBLISHED)
    flip(last.file, last.end - 1)
    with pytest.raises(DamagedLog):
        published_changes(log, "run", 2)
    with pytest.raises(DamagedLog), opened(log.parent, skip_damaged=True):
        pass
