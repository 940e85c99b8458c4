"""The log as another process reads it while its owner writes."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.log.model import DIRECTORY, Model
from tests.gateway.log.simulated_disk import File, SimulatedDisk
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import DamagedLog, Record
from wallaroo.gateway.log.scan import FollowedLog, PinnedLog, scan
from wallaroo.gateway.log.segments import HEAD_BYTES


def _model(records: int = 20, segment_bytes: int = 400) -> Model:
    model = Model(SimulatedDisk(), segment_bytes)
    model.recover()
    for _ in range(records):
        model.append(7, b"x" * 60)
        model.write()
        model.sync()
    return model


def test_a_directory_without_a_log(tmp_path: Path) -> None:
    assert list(scan(tmp_path / "missing")) == []
    assert list(scan(tmp_path)) == []


def test_all_that_was_written_is_read(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", lambda: [b"state"], segment_bytes=500)
    list(log.recover())
    for number in range(50):
        log.append(7, b"%d" % number * 20)
        log.write()
    files = {file: file.read_bytes() for file in (tmp_path / "log").iterdir()}
    assert list(scan(tmp_path / "log")) == list(log.records(0))
    assert {file: file.read_bytes() for file in (tmp_path / "log").iterdir()} == files
    log.close()


def test_what_is_released_meanwhile_can_be_read_to_the_end(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", lambda: [b"state"], segment_bytes=500)
    list(log.recover())
    for _ in range(10):
        log.append(7, b"x" * 100)
    log.write()
    log.sync()
    original = list(log.records(0))
    reading = scan(tmp_path / "log")
    read = [next(reading)]
    for _ in range(30):
        log.append(7, b"y" * 100)
        log.write()
        log.sync()
        log.release(log.end)
    read += reading
    assert read[: len(original)] == original
    # a segment that nobody reads is used again
    log.append(7, b"z" * 400)
    log.write()
    log.sync()
    log.release(log.end)
    assert list((tmp_path / "log").glob("spare-*"))
    assert [record.kind for record in scan(tmp_path / "log")] == [1, 7]
    log.close()


@pytest.mark.parametrize("seed", range(20))
def test_any_moment(seed: int) -> None:
    """Something happens before each call of the scan."""
    rng = random.Random(seed)

    class Busy(SimulatedDisk):
        busy = False

        def open(self, file: Path, *, writable: bool = False) -> int:
            self._happens()
            return super().open(file, writable=writable)

        def lock(self, descriptor: int, *, shared: bool) -> bool:
            self._happens()
            return super().lock(descriptor, shared=shared)

        def is_at(self, descriptor: int, file: Path) -> bool:
            self._happens()
            return super().is_at(descriptor, file)

        def pread(self, descriptor: int, length: int, offset: int) -> bytes:
            self._happens()
            return super().pread(descriptor, length, offset)

        def _happens(self) -> None:
            if self.busy:
                self.busy = False
                for _ in range(rng.randrange(4)):
                    model.append(7, rng.randbytes(rng.randrange(150)))
                    model.write()
                    model.sync()
                    if rng.random() < 0.3:
                        model.release(rng.randrange(model.kept, model.log.next))
                self.busy = True

    disk = Busy()
    model = Model(disk, 400, 1500)
    model.recover()
    for number in range(30):
        kept, written = model.kept, model.log.written
        disk.busy = True
        with_kept = number % 2 == 1
        found = scan(DIRECTORY, kept=with_kept, disk=disk)
        read = [one._replace(payload=bytes(one.payload)) for one in found]
        disk.busy = False
        numbers = [record.number for record in read]
        if numbers:
            assert numbers[0] <= model.kept
            assert with_kept or kept <= numbers[0]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert read == [model.appended[number] for number in numbers]
            assert written <= numbers[-1] <= model.log.written
        else:
            assert not written


def test_a_record_that_is_written_while_it_is_read_is_not_damaged() -> None:
    class Torn(SimulatedDisk):
        reads = 0

        def pread(self, descriptor: int, length: int, offset: int) -> bytes:
            data = super().pread(descriptor, length, offset)
            self.reads += 1
            if self.reads == 2:  # behind the head
                # the page before the last records was read before they were written
                return data[:-200] + bytes(50) + data[-150:]
            return data

    model = _model(4, 4000)
    disk = Torn(model.disk.names_seen)
    assert len(list(scan(DIRECTORY, disk=disk))) == model.log.written - model.kept + 1
    assert disk.reads == 3


def test_damage_is_named() -> None:
    model = _model()
    for number in (3, 12):
        disk = model.disk.copy()
        record = model.appended[number]
        segment = [one for one in model.log._segments if one.head.first <= number][-1]
        data = disk.names_seen[segment.file.name].seen
        data[HEAD_BYTES + record.address - segment.head.address + 30] ^= 1
        read: list[Record] = []
        with pytest.raises(DamagedLog) as raised:
            read.extend(scan(DIRECTORY, disk=disk))
        assert (raised.value.first, raised.value.last) == (number, number)
        assert raised.value.file == segment.file


def test_a_segment_that_was_about_to_begin_is_left_out() -> None:
    model = _model()
    records = list(scan(DIRECTORY, disk=model.disk))
    for data in (b"", b"walla", bytes(1000)):
        disk = model.disk.copy()
        disk.names_seen[f"log-{model.log.next:016x}"] = File(data)
        assert list(scan(DIRECTORY, disk=disk)) == records
        log = Log(DIRECTORY, list, disk=disk)
        assert list(log.recover()) == records
        assert len(disk.names_seen) == len(model.disk.names_seen)


def _copied(pinned: PinnedLog, target: Path, most: int | None = None) -> list[Record]:
    """What recovery finds in a copy of a log, up to the record number *most*."""
    target.mkdir()

    def to(descriptor: int, name: str, length: int) -> None:
        (target / name).write_bytes(os.pread(descriptor, length, 0))

    name, last = pinned.copy(lambda record: most is not None and record.number > most, to)
    log = Log(target, lambda: [b"state"], segment_bytes=500)
    records = list(log.recover())
    assert (log.name, log.next) == (name, last + 1)
    log.close()
    return records


@pytest.mark.parametrize("seed", range(10))
def test_a_pinned_log_is_copied_whatever_its_owner_does(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log = Log(tmp_path / "log", lambda: [b"state"], segment_bytes=500)
    list(log.recover())

    def go_on() -> None:
        for _ in range(rng.randrange(1, 30)):
            log.append(7, rng.randbytes(rng.randrange(150)))
            log.write()
            log.sync()

    def end() -> None:
        go_on()
        log.release(log.end)

    end()
    go_on()
    with PinnedLog(tmp_path / "log") as pinned:
        there = list(scan(tmp_path / "log"))
        go_on()
        log.release(there[-1].address)
        assert pinned.extend()
        there += [one for one in scan(tmp_path / "log") if one.number > there[-1].number]
        most = rng.choice(there).number
        for _ in range(3):
            end()
        assert _copied(pinned, tmp_path / "part", most) == there[: most - there[0].number + 1]
        assert _copied(pinned, tmp_path / "all")[: len(there)] == there
    log.close()


def test_segments_that_came_and_went_between_pins_are_a_gap(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", lambda: [b"state"], segment_bytes=500)
    list(log.recover())

    def go_on() -> None:
        for _ in range(20):
            log.append(7, b"x" * 100)
        log.write()
        log.sync()
        log.release(log.end)

    go_on()
    with PinnedLog(tmp_path / "log") as pinned:
        go_on()
        assert not pinned.extend()
    log.close()


def test_a_copy_of_a_log_that_is_not_there(tmp_path: Path) -> None:
    with PinnedLog(tmp_path / "log") as pinned:
        assert pinned.extend()
        assert pinned.copy(lambda _: False, lambda *_: None) == (b"", 0)


class Follower:
    """A reader that follows a log, and a writer of it.

    Args:
        directory: The directory of the log.
    """

    def __init__(self, directory: Path) -> None:
        self.log = Log(directory, lambda: [b"state"], segment_bytes=500)
        list(self.log.recover())
        self.turns: list[Callable[[], None]] = []
        """What the writer does while the reader waits."""
        self.followed = FollowedLog(directory, self._waits)

    def write(self, count: int, length: int = 60) -> None:
        for number in range(count):
            self.log.append(7, b"%d" % (self.log.next + number) * length)
            self.log.write()
            self.log.sync()

    def read(self) -> list[tuple[int, bytes]]:
        """All records of the writer, up to the end of its turns."""
        with self.followed as records:
            return [(one.number, bytes(one.payload)) for one in records if one.kind == 7]

    def _waits(self) -> bool:
        if self.turns:
            self.turns.pop(0)()
            return True
        return False


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    made = Follower(tmp_path / "log")
    yield made
    made.log.close()


def test_what_is_appended_is_read_as_it_comes(follower: Follower) -> None:
    choose, written = random.Random(1), list[Record]()

    def turn() -> None:
        before, start = follower.log.next, follower.log.end
        follower.write(*choose.choice([(0, 1), (4, 1), (2, 30), (1, 200)]))
        if follower.log.next > before:
            written.extend(follower.log.records(start))
        if choose.random() < 0.5:
            follower.log.release(follower.log.end)

    turn()
    follower.turns = [turn] * 60
    read = follower.read()
    assert read == [(one.number, bytes(one.payload)) for one in written if one.kind == 7]
    assert len(read) > 60


def test_records_longer_than_a_piece_are_read(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wallaroo.gateway.log.scan._PIECE_BYTES", 64)
    follower.write(1, 200)
    follower.turns = [lambda: follower.write(2, 10), lambda: follower.write(1, 150)]
    assert [number for number, _ in follower.read()] == [2, 3, 4, 6]


def test_a_log_that_begins_later_is_followed(tmp_path: Path) -> None:
    made: list[Follower] = []

    def waits() -> bool:
        if not made:
            made.append(Follower(tmp_path / "log"))
            made[0].write(3)
            return True
        return False

    with FollowedLog(tmp_path / "log", waits) as followed:
        assert [one.kind for one in followed] == [1, 7, 7, 7]
    made[0].log.close()


@pytest.mark.parametrize("released", [1, 2])
def test_a_reader_keeps_as_many_released_files_as_it_may(
    follower: Follower, released: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FollowedLog, "EXTEND_S", 0.0)
    monkeypatch.setattr(FollowedLog, "MOST_RELEASED", 1)
    firsts: list[int] = []
    while len(firsts) < 6:
        follower.write(1)
        firsts = sorted(one.number for one in follower.log.records(0) if one.kind == 1)
    numbers = []
    with contextlib.ExitStack() as stack:
        for record in stack.enter_context(follower.followed):
            if record.number == 2:
                (end,) = (
                    one.address for one in follower.log.records(0) if one.number == firsts[released]
                )
                follower.log.release(end)
                if released == 2:
                    stack.enter_context(
                        pytest.raises(RuntimeFailure, match="fallen too far behind")
                    )
            numbers.append(record.number)
    assert numbers == list(range(1, follower.log.next if released == 1 else 3))


def test_a_file_that_is_released_before_it_was_seen_is_told(follower: Follower) -> None:
    follower.write(10)

    def hurry() -> None:
        for _ in range(20):
            follower.write(2)
            follower.log.release(follower.log.end)

    follower.turns = [hurry]
    with pytest.raises(RuntimeFailure, match="fallen too far behind"):
        follower.read()


def test_damage_is_told_once_the_log_goes_on_elsewhere(follower: Follower, tmp_path: Path) -> None:
    follower.write(2)

    def damage() -> None:
        follower.log.append(7, b"needle")
        follower.log.write()
        for file in (tmp_path / "log").glob("log-*"):
            if (at := file.read_bytes().find(b"needle")) >= 0:
                with file.open("r+b") as opened:
                    opened.seek(at)
                    opened.write(b"N")
        follower.write(10)

    follower.turns = [damage]
    with pytest.raises(DamagedLog):
        follower.read()


def test_a_log_that_is_moved_away_is_told(follower: Follower, tmp_path: Path) -> None:
    follower.write(2)

    def move() -> None:
        (tmp_path / "log").rename(tmp_path / "elsewhere")

    follower.turns = [move]
    with pytest.raises(RuntimeFailure, match="is gone, or is another one"):
        follower.read()
