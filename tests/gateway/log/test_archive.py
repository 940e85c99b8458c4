"""Segments in an archive: none is lost or doubled, whatever is killed, full or away."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow
import pytest
import structlog

from tests.helpers import ROOT, wait_until
from wallaroo.errors import DamagedFile
from wallaroo.gateway.log import archiving
from wallaroo.gateway.log.archive import REMEDY
from wallaroo.gateway.log.archiving import archive_oldest
from wallaroo.gateway.log.kept import MOST_WAITING, Keep
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.scan import scan

_KEPT_BYTES = 12_000
_ARCHIVES = Keep(_KEPT_BYTES, archives=True)


class Written:
    """A log whose segments go to an archive, in a directory."""

    def __init__(self, directory: Path, keep: Keep = _ARCHIVES) -> None:
        self.directory, self.archive = directory / "log", directory / "archive"
        self.archive.mkdir(exist_ok=True)
        self.log = Log(self.directory, lambda: [b"tables"], segment_bytes=4_000, keep=keep)
        for _ in self.log.recover():
            pass

    def append(self, segments: int, text: bytes = b" ") -> None:
        """Append some segments, and release all before the last one."""
        end = self.log.next + 40 * segments
        while self.log.next < end:
            self.log.append(7, (b"%d" % self.log.next + text) * 20)
            self.log.write()
        self.log.sync()
        self.log.release(self.log.end)

    def archive_all(self) -> int:
        count = 0
        while archive_oldest(self.directory, self.archive):
            count += 1
        return count

    def numbers(self, archive: bool = True) -> list[int]:
        found = scan(self.directory, kept=True, archive=self.archive if archive else None)
        numbers = [record.number for record in found]
        assert numbers == list(range(numbers[0], self.log.next))
        return numbers

    def payloads(self) -> list[bytes]:
        found = scan(self.directory, kept=True, archive=self.archive)
        return [bytes(record.payload) for record in found if record.kind == 7]

    def waiting(self) -> list[Path]:
        return sorted(self.directory.glob("leaving-*"))


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path)
    yield made
    made.log.close()


def test_what_goes_is_in_the_archive_and_read_with_the_log(written: Written) -> None:
    for _ in range(4):
        written.append(5)
        assert written.numbers() == list(range(1, written.log.next))
        assert written.archive_all() > 0
        assert written.waiting() == []
        assert written.numbers() == list(range(1, written.log.next))
        assert written.numbers(archive=False)[0] > 1
    assert written.log.kept.waiting == written.log.kept.lost == 0
    kept = [file.stat().st_size for file in written.directory.glob("kept-*")]
    assert 0 < sum(kept) <= _KEPT_BYTES
    files = list(written.archive.iterdir())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert sum(file.stat().st_size for file in files) < len(files) * 4_000 / 3


def test_of_an_archive_that_is_away_as_many_wait_as_may(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    written.archive.rmdir()
    with pytest.raises(OSError, match="archive is not there"):
        archive_oldest(written.directory, written.archive)
    written.append(60)
    kept = written.log.kept
    assert (len(written.waiting()), kept.waiting) == (MOST_WAITING, MOST_WAITING)
    lost = kept.lost
    assert lost > 10
    written.archive.mkdir()
    assert written.archive_all() == MOST_WAITING
    assert written.numbers()[0] > 1  # behind the gap
    written.append(10)
    written.archive_all()
    assert kept.lost == lost


def test_a_full_archive_leaves_nothing_but_whole_files(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    written.append(10)
    waiting = written.waiting()
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            archive_oldest(written.directory, written.archive)
    assert list(written.archive.iterdir()) == []
    assert written.waiting() == waiting
    written.archive_all()
    assert written.numbers()[0] == 1


def test_the_log_is_full_before_the_archive_has_taken_all(written: Written) -> None:
    written.append(12)
    waiting = len(written.waiting())
    assert waiting
    for number in range(waiting):
        assert written.log.kept.forget_oldest()
        assert (written.log.kept.waiting, written.log.kept.lost) == (
            waiting - number - 1,
            number + 1,
        )
    written.numbers()


@pytest.mark.parametrize("size", [0, 4_000, 10**6])
def test_another_limit_after_a_restart_loses_nothing(tmp_path: Path, size: int) -> None:
    before = Written(tmp_path, Keep(10**6, archives=True))
    before.append(60)
    before.log.close()
    written = Written(tmp_path, Keep(size, archives=True))
    written.append(5)
    assert written.log.kept.lost == 0
    written.archive_all()
    written.append(5)
    written.archive_all()
    assert written.numbers()[0] == 1
    written.log.close()
    without = Written(tmp_path, Keep())
    assert without.waiting() == []
    without.numbers()
    without.log.close()


def test_what_waits_goes_with_a_start_that_has_no_archive(tmp_path: Path) -> None:
    before = Written(tmp_path)
    before.append(10)
    assert before.waiting()
    before.log.close()
    without = Written(tmp_path, Keep(_KEPT_BYTES))
    assert without.waiting() == []
    assert without.numbers(archive=False)[0] > 1
    without.log.close()


def test_age_moves_no_more_than_may_wait(tmp_path: Path) -> None:
    now = [10**18]
    written = Written(tmp_path, Keep(10**6, 60.0, True, lambda: now[0]))
    written.append(60)
    now[0] += 100 * 10**9
    for _ in range(100):
        written.log.kept.expire()
    assert len(written.waiting()) == MOST_WAITING
    assert written.archive_all() == MOST_WAITING
    for _ in range(20):
        for _ in range(5):
            written.log.kept.expire()
        written.archive_all()
    assert list(written.directory.glob("kept-*")) == []
    assert written.log.kept.lost == 0
    assert written.numbers()[0] == 1
    written.log.close()


def test_a_file_that_is_not_what_was_archived_is_told(written: Written) -> None:
    written.append(20)
    written.archive_all()
    first, second, *_ = sorted(written.archive.iterdir())
    content = first.read_bytes()
    first.write_bytes(content[:-20])
    with pytest.raises(
        DamagedFile, match=f"{first} is damaged: it cannot be decompressed; {REMEDY}"
    ):
        written.numbers()
    with pyarrow.input_stream(str(second)) as stream:
        found = bytearray(stream.read())
    found[-1] ^= 1
    first.write_bytes(content)
    compressed = pyarrow.compress(bytes(found), "zstd", asbytes=True)
    second.write_bytes(compressed)
    not_so = f"is damaged: its content does not have the SHA-256 in its name; {REMEDY}"
    with pytest.raises(DamagedFile, match=not_so):
        written.numbers()
    digest = hashlib.sha256(found).hexdigest()
    changed = second.rename(second.with_name(f"{second.name[:50]}{digest}.zst"))
    with pytest.raises(DamagedFile, match=f"{changed} cannot be used: .* it was changed; {REMEDY}"):
        written.numbers()


@pytest.mark.parametrize("way", ["empty", "swapped", "a pipe", "no link"])
def test_a_file_that_is_not_the_segment_of_its_name_is_told(written: Written, way: str) -> None:
    written.append(20)
    written.archive_all()
    first, _, third, *_ = sorted(written.archive.iterdir())
    if way == "empty":
        third.write_bytes(b"")
    elif way == "swapped":
        first.rename(written.archive / "first")
        third.rename(first)
        (written.archive / "first").rename(third)
    else:
        third.unlink()
        third.symlink_to("none") if way == "no link" else os.mkfifo(third)
    with pytest.raises(DamagedFile, match=f"{third} is damaged: .*; {REMEDY}"):
        written.numbers()


def test_what_is_missing_before_others_is_told(written: Written) -> None:
    written.append(20)
    written.archive_all()
    first, second, third, fourth, *_ = sorted(written.archive.iterdir())
    fourth_number, third_number = (int(file.name.split("-")[1], 16) for file in (fourth, third))
    for files, missing in [
        (
            [third],
            f"records {third_number} to {fourth_number - 1}, which were in {third.name[:49]}",
        ),
        ([second, first], None),
    ]:
        for file in files:
            file.unlink()
        with structlog.testing.capture_logs() as told:
            assert written.numbers()[0] == fourth_number
        assert [one["event"] for one in told] == ["archive incomplete"] * bool(missing)
        if missing:
            assert told[0]["missing"].startswith(missing)
            assert told[0]["missing"].endswith("not used for this: 2")


@pytest.mark.parametrize("text", [b"-", b" longer "])
def test_copies_of_a_log_that_were_continued_can_have_one_archive(
    tmp_path: Path, text: bytes
) -> None:
    """Both have a segment that begins with the same record, at the same place."""
    before = Written(tmp_path)
    before.append(6)
    before.archive_all()
    before.log.close()
    shutil.copytree(before.directory, tmp_path / "copy" / "log")
    written, copy = Written(tmp_path), Written(tmp_path / "copy")
    copy.archive = written.archive
    for one, more in ((copy, text), (written, b" "), (copy, text), (written, b" ")):
        one.append(6, more)
        one.archive_all()
    for one in (written, copy):
        assert one.numbers()[0] == 1
        assert (text in one.payloads()[-1]) == (one is copy)
    assert not any(text in payload for payload in written.payloads())
    places = Counter(file.name[:49] for file in written.archive.iterdir())
    place = min(place for place, files in places.items() if files > 1)
    both = list(written.archive.glob(f"{place}*"))
    contents = [file.read_bytes() for file in both]
    segments = [pyarrow.input_stream(BytesIO(content), "zstd").read() for content in contents]
    mine = [segment.count(text) > 40 for segment in segments].index(False)
    both[mine].write_bytes(contents[mine][:-20])
    with pytest.raises(DamagedFile, match=f"{both[mine]} is damaged: .*; {REMEDY}"):
        written.numbers()
    both[mine].write_bytes(contents[1 - mine])
    with pytest.raises(DamagedFile, match=f"{both[0]} and {both[1]} cannot be used: .*; {REMEDY}"):
        written.numbers()
    both[mine].unlink()
    with pytest.raises(DamagedFile, match=f"{both[1 - mine]} cannot be used: .*; {REMEDY}"):
        written.numbers()
    assert copy.payloads()
    written.log.close()
    copy.log.close()


def test_other_files_in_the_archive_are_none_of_it(written: Written, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Written(tmp_path / "other")
    other.archive = written.archive
    for one in (written, other):
        one.append(10)
    (written.archive / "notes.txt").write_text("x")
    (written.archive / ("0" * 32 + "-" + "0" * 15 + "1-" + "0" * 64 + ".zst")).write_text("x")
    written.archive_all()
    other.archive_all()
    assert written.numbers()[0] == other.numbers()[0] == 1
    other.log.close()


def test_what_another_process_is_copying_stays_and_what_was_cut_short_goes(
    written: Written,
) -> None:
    written.append(12)
    part = written.archive / f".{written.log.name.hex()}-{1:016x}-1.part"
    with part.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert archive_oldest(written.directory, written.archive)
        assert part.exists()
    assert archive_oldest(written.directory, written.archive)
    assert not part.exists()


def process(written: Written, faults: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", archiving.__name__, str(written.directory)]
    return subprocess.Popen(
        [*command, str(written.archive)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "WALLAROO_FAULTS": str(faults)},
        cwd=ROOT,
    )


@pytest.mark.parametrize("place", ["archive-copied", "archive-named"])
def test_a_kill_between_any_two_steps_loses_and_doubles_nothing(
    written: Written, tmp_path: Path, place: str
) -> None:
    written.append(6)
    assert len(written.waiting()) > 1
    (tmp_path / "faults").mkdir()
    for _ in range(2):
        (tmp_path / "faults" / place).touch()
        killed = process(written, tmp_path / "faults")
        killed.communicate(timeout=60)
        assert killed.returncode == -9
        assert written.numbers()[0] == 1
        has_name = place == "archive-named"
        assert len(list(written.archive.glob("*.zst"))) == has_name
        assert len(list(written.archive.glob(".*.part"))) == (not has_name)
    written.archive_all()
    assert written.numbers()[0] == 1
    names = [file.name.rpartition("-")[0] for file in written.archive.iterdir()]
    assert len(set(names)) == len(names)
    assert all(name.startswith(written.log.name.hex()) for name in names)


def test_the_process_tells_what_is_wrong_and_that_it_goes_on(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.append(15)
    written.archive.rename(tmp_path / "elsewhere")
    reads, writes = os.pipe()
    stdin = os.fdopen(reads)
    monkeypatch.setattr(archiving, "_RETRY_S", 0.05)
    monkeypatch.setattr(archiving, "_LOOK_S", 0.05)
    told: list[str | None] = []
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("os.nice", lambda _: 0)
    monkeypatch.setattr(
        "builtins.print", lambda line, **_more: told.append(json.loads(line)["problem"])
    )
    thread = threading.Thread(
        target=archiving.main, args=(written.directory, written.archive, archiving.Report())
    )
    thread.start()
    wait_until(lambda: len(told) == 1, "the problem")
    (tmp_path / "elsewhere").rename(written.archive)
    wait_until(lambda: len(told) == 2, "the end of the problem")
    wait_until(lambda: not written.waiting(), "the archive")
    os.close(writes)
    thread.join(60)
    stdin.close()
    assert told == [f"{written.archive} is not there", None]
