"""The log in everyday use, on the disk of the system."""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.log.model import DIRECTORY, HEADER, Model
from tests.gateway.log.simulated_disk import SimulatedDisk
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SNAPSHOT, DamagedLog, Record
from wallaroo.gateway.log.segments import HEAD_BYTES, parsed_head


def _opened(directory: Path, segment_bytes: int = 1024**2) -> tuple[Log, list[Record]]:
    log = Log(directory, lambda: [b"state"], segment_bytes=segment_bytes)
    return log, list(log.recover())


_payloads = st.lists(st.binary(max_size=200), max_size=4)
_steps = st.one_of(
    st.tuples(st.just("append"), st.integers(3, 255), _payloads),
    st.tuples(st.sampled_from(["write", "sync", "begin_sync", "end_sync", "recover", "scan"])),
    st.tuples(st.sampled_from(["release", "read"]), st.floats(0, 1)),
)


@given(st.lists(_steps, max_size=60), st.integers(150, 1500))
def test_anything_in_any_order(steps: list[tuple[object, ...]], segment_bytes: int) -> None:
    model = Model(SimulatedDisk(), segment_bytes)
    model.recover()
    for name, *arguments in steps:
        if name == "append":
            kind, parts = arguments
            assert isinstance(kind, int)
            assert isinstance(parts, list)
            model.append(kind, *parts)
        elif name in {"release", "read"}:
            (where,) = arguments
            assert isinstance(where, float)
            if model.appended:
                first = model.kept
                number = first + int(where * (len(model.appended) - first))
                (model.release if name == "release" else model.read)(number)
        else:
            if name == "recover":
                model.log.close()
            getattr(model, str(name))()


def test_files_are_private_and_not_inherited(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", segment_bytes=200)
    for _ in range(5):
        log.append(7, b"x" * 100)
    log.write()
    log.sync()
    log.release(log.end)
    files = list((tmp_path / "log").iterdir())
    assert {file.name.partition("-")[0] for file in files} == {"log", "spare"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    log.append(7)
    log.write()
    ticket = log.begin_sync()
    assert ticket is not None
    assert not os.get_inheritable(ticket[0])
    log.close()


def test_a_log_is_empty_at_first(tmp_path: Path) -> None:
    log, records = _opened(tmp_path / "log")
    assert not records
    log.write()
    log.sync()
    log.release(0)
    assert (log.next, log.written, log.durable, log.end, log.disk_bytes) == (1, 0, 0, 0, 0)
    assert log.oldest_end is None
    assert log.begin_sync() is None
    assert list(log.records(0)) == []
    assert not list((tmp_path / "log").iterdir())
    with pytest.raises(LookupError):
        log.read(0)
    log.close()


def test_it_is_recovered_before_it_is_appended_to(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not recovered"):
        Log(tmp_path, list).append(7)


def test_a_name_lasts(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log")
    log.append(7)
    log.write()
    log.close()
    again, _ = _opened(tmp_path / "log")
    assert again.name == log.name
    assert len(log.name) == 16
    again.close()


def test_a_write_is_one_call_and_so_is_a_sync() -> None:
    model = Model(SimulatedDisk(), 10**6)
    model.recover()
    model.append(7, b"begins the log")
    model.write()
    model.sync()
    model.disk.calls.clear()
    for _ in range(500):
        model.append(7, b"message ", b"x" * 100)
    assert not model.disk.calls
    model.write()
    assert model.disk.calls == {"pwritev": 1}
    model.sync()
    model.sync()
    model.write()
    assert model.disk.calls == {"pwritev": 1, "fdatasync": 1}


def test_more_buffers_than_the_system_takes(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", 64 * 1024**2)
    payloads = [os.urandom(5000) for _ in range(700)]
    for payload in payloads:
        log.append(7, payload[:10], bytearray(payload[10:]))
    log.write()
    log.sync()
    assert [one.payload for one in log.records(0)][1:] == payloads
    log.close()


def test_writes_that_the_system_does_in_part() -> None:
    class Partial(SimulatedDisk):
        def pwritev(self, descriptor, buffers, offset):  # type: ignore
            return super().pwritev(descriptor, [b"".join(buffers)[:7]], offset)

    model = Model(Partial())
    model.recover()
    for number in range(20):
        model.append(7, b"%d" % number * 30)
    model.write()
    model.sync()
    model.read(1)
    model.recover()


def test_a_long_record_has_a_segment_for_itself(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", segment_bytes=1000)
    for length in (10, 5000, 10, 100, 10):
        log.append(7, b"x" * length)
    log.write()
    log.sync()
    long = 5000 + 5 + 2 * HEADER + HEAD_BYTES
    sizes = [file.stat().st_size for file in sorted((tmp_path / "log").iterdir())]
    assert [size == long for size in sizes] == [False, True, False]
    log.release(log.end)
    # and is not used again
    spare = next((tmp_path / "log").glob("spare-*"))
    assert spare.stat().st_size < 1000
    log.close()


def test_a_long_snapshot_does_not_come_with_each_record() -> None:
    disk = SimulatedDisk()
    log = Log(DIRECTORY, lambda: [b"s" * 5000], segment_bytes=1000, disk=disk)
    list(log.recover())
    for turn in range(2):
        for _ in range(100):
            log.append(7, b"x" * 75)
        log.write()
        log.sync()
        if turn == 0:
            log.close()
            log = Log(DIRECTORY, lambda: [b"s" * 5000], segment_bytes=1000, disk=disk)
            list(log.recover())
    assert [record.kind for record in log.records(0)].count(SNAPSHOT) == 4


def test_a_snapshot_that_fails_changes_nothing() -> None:
    def snapshot() -> list[bytes]:
        if fails:
            raise OverflowError
        return [b"state"]

    fails = True
    log = Log(DIRECTORY, snapshot, disk=SimulatedDisk())
    list(log.recover())
    with pytest.raises(OverflowError):
        log.append(7)
    assert (log.next, log.end) == (1, 0)
    fails = False
    assert log.append(7) == HEADER + 5


def test_numbers_of_the_disk(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", segment_bytes=1000)
    for _ in range(40):
        log.append(7, b"x" * 100)
    log.write()
    log.sync()
    files = list((tmp_path / "log").iterdir())
    assert log.disk_bytes == sum(file.stat().st_size for file in files)
    before = log.disk_bytes
    oldest_end = log.oldest_end
    assert oldest_end is not None
    log.release(oldest_end - 1)
    assert log.disk_bytes == before
    log.release(oldest_end)
    assert log.disk_bytes == before - oldest_end - HEAD_BYTES
    assert log.read(oldest_end).kind == SNAPSHOT
    with pytest.raises(LookupError):
        log.read(oldest_end - 1)
    with pytest.raises(LookupError):
        next(log.records(0))
    log.release(log.end)
    assert log.oldest_end is None
    log.close()


def test_nothing_is_released_before_a_snapshot_is_on_disk() -> None:
    model = Model(SimulatedDisk(), 300)
    model.recover()
    for _ in range(4):
        model.append(7, b"x" * 100)
    model.release(model.log.next - 1)
    model.write()
    model.release(model.log.next - 1)
    assert model.log.oldest_end is not None
    model.sync()
    model.release(model.log.next - 1)
    assert model.log.oldest_end is None


def test_records_that_are_written_while_others_are_read(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", segment_bytes=500)
    numbers = []
    log.append(7, b"x" * 100)
    log.write()
    for record in log.records(0):
        numbers.append(record.number)
        if record.number < 30:
            log.append(7, b"x" * 100)
            log.write()
    assert numbers == list(range(1, log.next))
    assert len(numbers) > 30
    log.close()


def test_records_that_are_released_while_they_are_read(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", segment_bytes=500)
    for _ in range(10):
        log.append(7, b"x" * 100)
    log.write()
    log.sync()
    reading = log.records(0)
    next(reading)
    log.release(log.end)
    with pytest.raises(LookupError):
        list(reading)
    log.close()


def test_a_record_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", 64 * 1024**2)
    payloads = [os.urandom(length) for length in (10, 3_000_000, 10, 1_048_576, 20_000_000, 5)]
    addresses = [log.append(7, payload) for payload in payloads]
    log.write()
    assert [one.payload for one in log.records(addresses[0])] == payloads
    assert [log.read(address).payload for address in addresses] == payloads
    log.close()


def _changed(log: Log, address: int, change: Callable[[int], int]) -> None:
    segment = log._segments[0]
    place = HEAD_BYTES + address
    with segment.file.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([change(byte)]))


def test_what_is_read_is_checked(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log")
    addresses = [log.append(7, b"message %d" % number) for number in range(10)]
    log.write()
    for offset in range(HEADER + 9):
        _changed(log, addresses[4] + offset, lambda byte: byte ^ 4)
        for reading in (lambda: log.read(addresses[4]), lambda: list(log.records(addresses[0]))):
            with pytest.raises(DamagedLog) as raised:
                reading()
            damage = raised.value
            assert (damage.first, damage.last) == (6, 6)
            assert len(damage.data) == HEADER + 9
            assert str(damage.file).endswith("log-0000000000000001")
        _changed(log, addresses[4] + offset, lambda byte: byte ^ 4)
        assert log.read(addresses[4]).payload == b"message 4"
    with pytest.raises(DamagedLog):
        log.read(addresses[4] + 1)
    log.close()


def test_a_thread_syncs_a_segment_that_has_ended(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log", segment_bytes=500)
    log.append(7, b"x" * 100)
    log.write()
    ticket = log.begin_sync()
    assert ticket is not None
    for _ in range(20):
        log.append(7, b"x" * 100)
    log.write()
    thread = threading.Thread(target=os.fdatasync, args=ticket[:1], name="sync")
    thread.start()
    thread.join()
    log.end_sync(ticket[1])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(ticket[0])
    assert ticket[1] < log.durable < log.written
    log.close()


def test_closed_while_a_thread_syncs(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log")
    log.append(7)
    log.write()
    ticket = log.begin_sync()
    assert ticket is not None
    log.close()
    os.fdatasync(ticket[0])
    log.end_sync(ticket[1])
    assert log.durable == log.written
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(ticket[0])


def test_no_descriptor_stays_open() -> None:
    rng = random.Random(3)
    model = Model(SimulatedDisk(), 300)
    model.recover()
    for _ in range(500):
        model.step(rng)
    while model.syncs:
        model.end_sync()
    model.log.close()
    assert model.disk.open_files == 0


def test_segments_are_used_again() -> None:
    model = Model(SimulatedDisk(), 500)
    model.recover()
    for _ in range(100):
        model.append(7, b"x" * 50)
        model.write()
        model.sync()
        model.release(model.log.next - 1)
    assert model.disk.calls["create"] <= 3
    assert model.disk.calls["rename"] > 10
    assert len(model.disk.names_seen) <= 3
    model.recover()


def test_a_log_of_another_version_is_not_taken_for_damaged(tmp_path: Path) -> None:
    log, _ = _opened(tmp_path / "log")
    log.append(7)
    log.write()
    log.close()
    file = next((tmp_path / "log").iterdir())
    data = bytearray(file.read_bytes())
    head = parsed_head(data, file)
    assert head is not None
    module = parsed_head.__globals__
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setitem(module, "_VERSION", 2)
    data[:HEAD_BYTES] = head.pack()
    monkeypatch.undo()
    file.write_bytes(data)
    with pytest.raises(RuntimeFailure, match="has format 2; this version of Wallaroo reads 1"):
        _opened(tmp_path / "log")
