"""Explanations from what is kept of the log once its messages are processed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.helpers import wait_until
from tests.history.harness import Recorded, explained
from tests.history.test_explanation import Clock
from tests.history.totals import totals
from wallaroo.engine.stored import Committed
from wallaroo.errors import DamagedFile, UsageError
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.log.archiving import archive_oldest
from wallaroo.gateway.log.kept import MOST_WAITING
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SNAPSHOT
from wallaroo.gateway.store import StoreLimits
from wallaroo.history.changes import UNKNOWN
from wallaroo.history.explanation import Explanation
from wallaroo.history.records import followed, records
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
) -> list[Committed]:
    """Run messages for two keys, and let all of them be in a checkpoint; all checkpoints."""
    limits = StoreLimits(JournalLimits(keep_bytes=keep_bytes, keep_s=keep_s, archive=archive))
    recorded = Recorded(directory, totals(), limits=limits, **more)
    made = []
    for number in range(ROUNDS):
        padded = b" " * padding
        recorded.run([("numbers", b"ada 1"), ("numbers", b"bob+ada %d" % number + padded)])
        made.append(recorded.checkpoint())
    before = segments(directory)
    assert before
    recorded.store.journal.alarm.set(None)
    wait_until(lambda: len(segments(directory)) == 1, "the release of segments")
    recorded.close()
    return made


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


def test_that_the_archive_falls_behind_and_has_caught_up_is_told(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    recorded = Recorded(tmp_path, totals(), limits=StoreLimits(JournalLimits(archive=archive)))

    def told_after(rounds: int, event: str) -> None:
        for number in range(rounds):
            recorded.run([("numbers", b"ada %d" % number + b" " * 3_000)])
            recorded.checkpoint()
        recorded.store.journal.alarm.set(None)
        wait_until(lambda: any(one["event"] == event for one in told), event)

    with structlog.testing.capture_logs() as told:
        told_after(ROUNDS, "archive waits")
        waiting = len(segments(tmp_path, "leaving-"))
        assert waiting >= MOST_WAITING
        while archive_oldest(tmp_path / LOG, archive):
            pass
        told_after(2, "archive resumed")
    recorded.close()
    changes = [one for one in told if one["event"].startswith("archive")]
    assert [one["event"] for one in changes] == ["archive waits", "archive resumed"]
    assert changes[0]["effect"].startswith(f"{MOST_WAITING} files of the log wait for it")


class Archived:
    """A log most of which is archived, and states as of its checkpoints.

    Args:
        directory: Where it is.
        keep_bytes: How much is kept beside.
    """

    def __init__(self, directory: Path, keep_bytes: int = 0) -> None:
        self.log, self.archive = directory / "state" / LOG, directory / "archive"
        self.archive.mkdir(parents=True)
        self.log.parent.mkdir()
        self.checkpoints = released(directory / "state", keep_bytes, archive=self.archive)
        while archive_oldest(self.log, self.archive):
            pass
        self.files = sorted(self.archive.iterdir(), key=lambda file: file.name.split("-")[1])

    def rehearsed(self, beginning: Committed, archive: Path | None = None) -> Rehearsal:
        """The same code over the messages since a checkpoint."""
        found = records(self.log, archive=archive or self.archive, since=beginning.offset)
        return Rehearsal.of(totals(), found, beginning)

    def shadowed(self, beginning: Committed, archive: Path | None = None) -> Rehearsal:
        """The same as a shadow."""
        with followed(self.log, lambda: False, archive or self.archive) as records_since:
            return Rehearsal.of(totals(), records_since(beginning.offset), beginning)


@pytest.mark.parametrize("way", [Archived.rehearsed, Archived.shadowed])
def test_what_runs_from_a_checkpoint_reads_no_more_of_the_archive_than_it_needs(
    tmp_path: Path, way: Callable[..., Rehearsal]
) -> None:
    archived = Archived(tmp_path)
    assert len(archived.files) > 4
    for number, beginning in enumerate(archived.checkpoints):
        found = way(archived, beginning)
        assert found.messages == 2 * (ROUNDS - 1 - number)
        assert found.differing_names() == set()
        assert found.sinks["numbers"].same == 3 * (ROUNDS - 1 - number)
    middle = archived.checkpoints[ROUNDS // 2]
    for file in archived.files[:2]:
        file.unlink()
    assert way(archived, middle).messages == 2 * (ROUNDS - 1 - ROUNDS // 2)
    with pytest.raises(UsageError, match=r"has messages from offset .*; --archive reads"):
        way(archived, archived.checkpoints[0])


def test_a_key_is_explained_from_a_checkpoint_on(tmp_path: Path) -> None:
    archived = Archived(tmp_path)
    beginning = archived.checkpoints[-3]
    found = records(archived.log, archive=archived.archive, since=beginning.offset)
    explanation = Explanation(totals(), found, "ada", beginning=beginning)
    first, *others = explanation
    assert len(others) == 3
    assert first.before["sum"] == ROUNDS - 2 + sum(range(ROUNDS - 2))
    assert not explanation.lacks


@pytest.mark.parametrize("way", [Archived.rehearsed, Archived.shadowed])
def test_the_archive_is_left_alone_if_what_is_kept_goes_back_far_enough(
    tmp_path: Path, way: Callable[..., Rehearsal]
) -> None:
    archived = Archived(tmp_path, 30_000)
    assert archived.files
    for file in archived.files:
        file.write_bytes(b"not of an archive")
    later = archived.checkpoints[-8]
    assert len(segments(archived.log.parent, "kept-")) > 1
    assert way(archived, later).messages == 14
    with pytest.raises(DamagedFile, match=f"{archived.files[-1]} is damaged"):
        way(archived, archived.checkpoints[0])


@pytest.mark.parametrize("way", [Archived.rehearsed, Archived.shadowed])
def test_a_damaged_file_of_the_archive_and_one_of_another_log(
    tmp_path: Path, way: Callable[..., Rehearsal]
) -> None:
    archived, other = Archived(tmp_path / "one"), Archived(tmp_path / "other")
    with pytest.raises(UsageError, match=r"the log has messages from offset .* on"):
        way(archived, archived.checkpoints[0], other.archive)
    for file in other.files:
        file.rename(archived.archive / file.name)
    assert way(archived, archived.checkpoints[0]).messages == 2 * (ROUNDS - 1)
    broken = archived.files[-2]
    data = bytearray(broken.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    with pytest.raises(DamagedFile, match=f"{broken} is damaged"):
        way(archived, archived.checkpoints[0])


def test_the_same_code_differs_in_nothing_wherever_the_log_begins(tmp_path: Path) -> None:
    """Several publications may be of messages that are in parts of it which are gone."""
    recorded = Recorded(tmp_path, totals())
    journal = recorded.store.journal
    for number in range(12):
        for more in range(3):
            padded = b"ada %d" % (3 * number + more) + b" " * 900
            assert journal.submit(0, 1, len(padded).to_bytes(4, "big") + padded)
            assert journal.flush(10)
        for block in list(journal.read(recorded.end, journal.end)):
            recorded._publish([block], 1)
    recorded.close()
    found = list(records(tmp_path / LOG))
    begins = [at for at, record in enumerate(found) if record.kind == SNAPSHOT]
    rehearsals = [Rehearsal.of(totals(), found[at:]) for at in begins]
    assert len(rehearsals) > 10
    assert not rehearsals[-2].knows_all
    assert [one.differing_names() for one in rehearsals] == [set()] * len(begins)


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
