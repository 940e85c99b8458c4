"""A disk without room for what is written: nothing is lost, and writing goes on later."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.log.model import DIRECTORY, Model
from tests.gateway.log.simulated_disk import SimulatedDisk
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import NoRoom
from wallaroo.system.disk_space import is_full


def _filled(capacity: int) -> tuple[Model, int]:
    """A log on a disk with room for *capacity* bytes, and how often there was none."""
    model = Model(SimulatedDisk(capacity=capacity), 300)
    model.recover()
    refused = 0
    for number in range(6):
        model.append(7, b"%d" % number * 60)
        if number % 3 == 1:
            # several records at once
            continue
        try:
            model.log.write()
        except NoRoom:
            refused += 1
        model.log.sync()
        model.check_numbers()
    return model, refused


def test_there_is_no_room_at_any_byte() -> None:
    most = _filled(10**6)[0].disk.used()
    for capacity in range(most):
        model, refused = _filled(capacity)
        assert refused
        # what another process would find now
        synced = model.durable
        crashed = model.disk.copy()
        log = Log(DIRECTORY, list, disk=crashed)
        numbers = [record.number for record in log.recover()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= synced
        # there is room again
        model.disk.capacity = None
        model.write()
        model.sync()
        model.read(1)
        model.scan()
        model.recover()
        assert model.log.next == model.durable + 1


def test_room_for_what_is_released() -> None:
    model = Model(SimulatedDisk(capacity=1500), 400)
    model.recover()
    for number in range(60):
        model.append(7, b"%d" % number * 30)
        try:
            model.write()
        except NoRoom:
            model.release(model.log.written)
            model.write()
        model.sync()
    assert model.kept > 30
    model.recover()


def test_it_says_which_file_and_why() -> None:
    model = Model(SimulatedDisk(capacity=0))
    model.recover()
    model.append(7, b"message")
    with pytest.raises(NoRoom, match="the disk is full: 'log/log-0000000000000001'") as raised:
        model.log.write()
    assert is_full(raised.value)


def test_other_errors_are_not_taken_for_it() -> None:
    class Broken(SimulatedDisk):
        def pwritev(self, *_: object) -> int:
            raise OSError(errno.EIO, "broken")

    log = Log(DIRECTORY, list, disk=Broken())
    list(log.recover())
    log.append(7)
    with pytest.raises(OSError, match="broken") as raised:
        log.write()
    assert not isinstance(raised.value, NoRoom)


_LIMITED = """
import resource, sys
from pathlib import Path
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import NoRoom
from wallaroo.system.disk_space import is_full

log = Log(Path(sys.argv[1]), lambda: [b"state"], segment_bytes=100_000)
assert not list(log.recover())
resource.setrlimit(resource.RLIMIT_FSIZE, (20_001, resource.RLIM_INFINITY))
refused = 0
for number in range(100):
    log.append(7, b"%d" % number * 200, b"x" * 5000)
    try:
        log.write()
    except NoRoom:
        refused += 1
    log.sync()
assert refused > 90
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.write()
log.sync()
print(log.durable)
"""


def test_a_limit_of_the_size_of_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, tmp_path / "log"], capture_output=True, check=True
    )
    log = Log(tmp_path / "log", list)
    records = list(log.recover())
    assert records[-1].number == int(done.stdout)
    payloads = [bytes(record.payload) for record in records if record.kind == 7]
    assert payloads == [b"%d" % number * 200 + b"x" * 5000 for number in range(100)]
    log.close()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_small_file_system(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    try:
        log = Log(place / "log", lambda: [b"state"], segment_bytes=64 * 1024)
        list(log.recover())
        addresses = []
        refused = 0
        for number in range(200):
            addresses.append(log.append(7, os.urandom(10), b"%d" % number * 2000))
            try:
                log.write()
            except NoRoom:
                refused += 1
                log.release(addresses[-5])
                log.write()
            log.sync()
        assert refused
        log.close()
        log = Log(place / "log", lambda: [b"state"])
        records = [record for record in log.recover() if record.kind == 7]
        assert [record.address for record in records] == addresses[-len(records) :]
        assert records[-1].payload[10:] == b"199" * 2000
        log.close()
        records.clear()
    finally:
        subprocess.run(["umount", str(place)], check=True)
