"""Explanations from what is kept of the log once its messages are processed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import wait_until
from tests.history.harness import Recorded, explained
from tests.history.test_explanation import Clock
from tests.history.totals import totals
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.log.archiving import archive_oldest
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.store import StoreLimits
from wallaroo.history.changes import UNKNOWN
from wallaroo.history.explanation import Explanation
from wallaroo.history.records import records
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.system import disk_space

ROUNDS = 40


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=4_000))
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)


def released(
    directory: Path,
    keep_bytes: int,
    padding: int = 0,
    keep_s: float = 0.0,
    archive: Path | None = None,
    **more: Any,
) -> None:
    """Run messages for two keys, and let all of them be in the checkpoint."""
    limits = StoreLimits(JournalLimits(keep_bytes=keep_bytes, keep_s=keep_s, archive=archive))
    recorded = Recorded(directory, totals(), limits=limits, **more)
    for number in range(ROUNDS):
        padded = b" " * padding
        recorded.run([("numbers", b"ada 1"), ("numbers", b"bob+ada %d" % number + padded)])
        recorded.checkpoint()
    before = segments(directory)
    assert before
    recorded.store.journal.alarm.set(None)
    wait_until(lambda: len(segments(directory)) == 1, "the release of segments")
    recorded.close()


def segments(directory: Path, prefix: str = "log-") -> list[Path]:
    return sorted((directory / LOG).glob(f"{prefix}*"))


def test_all_of_it_is_there_if_all_is_kept(tmp_path: Path) -> None:
    released(tmp_path, 10**9)
    changes, explanation = explained(tmp_path, totals(), "ada")
    assert len(changes) == 2 * ROUNDS
    assert changes[0].is_new
    assert changes[-1].after["sum"] == ROUNDS + sum(range(ROUNDS))
    assert not explanation.lacks


@pytest.mark.parametrize("padding", [0, 700, 1_500, 3_000])
def test_the_latest_part_is_there_from_the_first_publication_in_it_on(
    tmp_path: Path, padding: int
) -> None:
    """Its messages may be in a part that is gone."""
    released(tmp_path, 30_000, padding)
    assert 0 < sum(file.stat().st_size for file in segments(tmp_path, "kept-")) <= 30_000
    changes, explanation = explained(tmp_path, totals(), "ada")
    assert 4 < len(changes) < 2 * ROUNDS
    assert changes[0].before == UNKNOWN
    assert explanation.lacks
    assert UNKNOWN not in [change.before for change in changes[2:]]
    assert [change.recorded for change in changes] == [None] * len(changes)
    assert changes[-1].after["sum"] == ROUNDS + sum(range(ROUNDS))


def test_all_of_it_is_there_if_the_rest_is_archived(tmp_path: Path) -> None:
    archive, log = tmp_path / "archive", tmp_path / LOG
    archive.mkdir()
    released(tmp_path, 12_000, archive=archive)
    assert segments(tmp_path, "leaving-")
    while archive_oldest(log, archive):
        pass
    _, explanation = explained(tmp_path, totals(), "ada")
    assert explanation.lacks
    explanation = Explanation(totals(), records(log, archive=archive), "ada")
    changes = list(explanation)
    assert len(changes) == 2 * ROUNDS
    assert changes[0].is_new
    assert not explanation.lacks
    assert Rehearsal.of(totals(), records(log, archive=archive)).differing_names() == set()


def test_what_is_kept_before_a_gap_is_removed(tmp_path: Path) -> None:
    released(tmp_path, 10**9)
    kept = segments(tmp_path, "kept-")
    kept[-3].unlink()
    changes, explanation = explained(tmp_path, totals(), "ada")
    assert 0 < len(changes) < 2 * ROUNDS
    assert explanation.lacks
    Recorded(tmp_path, totals(), limits=StoreLimits(JournalLimits(keep_bytes=10**9))).close()
    assert segments(tmp_path, "kept-")[:2] == kept[-2:]


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    released(tmp_path, 0)
    assert segments(tmp_path, "kept-") == []


def test_what_was_kept_goes_with_a_start_that_keeps_less(tmp_path: Path) -> None:
    released(tmp_path, 10**9)
    many = len(segments(tmp_path, "kept-"))
    Recorded(tmp_path, totals(), limits=StoreLimits(JournalLimits(keep_bytes=30_000))).close()
    assert 0 < len(segments(tmp_path, "kept-")) < many
    Recorded(tmp_path, totals()).close()
    assert segments(tmp_path, "kept-") == []


def test_what_is_kept_goes_with_time_though_nothing_comes_in(tmp_path: Path) -> None:
    clock = Clock()
    limits = StoreLimits(JournalLimits(keep_bytes=10**9, keep_s=60.0))
    released(tmp_path, 10**9, keep_s=60.0, clock=clock, uptime=clock.uptime)
    kept = segments(tmp_path, "kept-")
    clock.now_ns += 59_900_000_000
    recorded = Recorded(tmp_path, totals(), limits=limits, clock=clock, uptime=clock.uptime)
    recorded.run([("numbers", b"ada 1")])
    assert segments(tmp_path, "kept-")[: len(kept)] == kept
    clock.now_ns += 10**9
    wait_until(lambda: not any(file.exists() for file in kept), "the end of what is kept")
    recorded.close()
    (*_, change), explanation = explained(tmp_path, totals(), "ada")
    assert explanation.lacks
    assert change.after["sum"] == ROUNDS + sum(range(ROUNDS)) + 1


def test_a_wall_clock_that_jumps_removes_nothing(tmp_path: Path) -> None:
    clock, wall = Clock(), Clock()
    limits = StoreLimits(JournalLimits(keep_bytes=10**9, keep_s=60.0))
    released(tmp_path, 10**9, keep_s=60.0, clock=wall, uptime=clock.uptime)
    kept = segments(tmp_path, "kept-")
    recorded = Recorded(tmp_path, totals(), limits=limits, clock=wall, uptime=clock.uptime)
    for jump_ns in (10**18, -2 * 10**18, 10**18):
        wall.now_ns += jump_ns
        recorded.run([("numbers", b"ada 1")])
    assert segments(tmp_path, "kept-")[: len(kept)] == kept
    recorded.close()


def test_what_is_kept_makes_room_for_messages_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(tmp_path, 10**9)
    reserved = disk_space.reserved_bytes(tmp_path)
    kept = segments(tmp_path, "kept-")
    missing = len(kept) - 2
    assert missing > 0

    def free(_directory: Path) -> int:
        gone = sum(not file.exists() for file in kept)
        return reserved + gone - missing

    monkeypatch.setattr(writer, "free_bytes", free)
    limits = StoreLimits(JournalLimits(keep_bytes=10**9))
    recorded = Recorded(tmp_path, totals(), limits=limits)
    recorded.store.journal.submit(0, 1, b"\0\0\0\5ada 1")
    assert recorded.store.journal.flush(10)
    assert [file for file in kept if file.exists()] == kept[missing:]
    recorded.close()
