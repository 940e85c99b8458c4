"""A process that appends, and is killed: what it said to be on disk is there."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.helpers import ROOT
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SNAPSHOT, Record
from wallaroo.gateway.log.scan import scan

_SEGMENT_BYTES = 8_000
_FAILPOINTS = (
    "log-before-write",
    "log-after-write",
    "log-after-sync",
    "log-segment-begins",
    "log-released",
)


class Counting:
    """Appends records that contain how many there were, and other bytes that follow from that."""

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self.log = Log(directory, lambda: [b"%d " % self.count], segment_bytes=_SEGMENT_BYTES)
        self.count = checked(self.log.recover())

    def append(self) -> None:
        self.log.append(7, payload_of(self.count + 1))
        self.count += 1


def payload_of(count: int) -> bytes:
    digest = hashlib.sha256(b"%d" % count).digest()
    return b"%d " % count + digest * (digest[0] % 20) + digest[: digest[1] % 32]


def checked(records: Iterable[Record]) -> int:
    """Check all records; returns how many they count."""
    count = number = -1
    for record in records:
        payload = bytes(record.payload)
        assert number in {-1, record.number - 1}
        number = record.number
        if record.kind == SNAPSHOT:
            assert count in {-1, int(payload)}
            count = int(payload)
        else:
            count += 1
            assert payload == payload_of(count)
    return max(count, 0)


def main(directory: Path, seed: int) -> None:
    """Append, sync and release until killed; say what is on disk."""
    rng = random.Random(seed)
    counting = Counting(directory)
    log = counting.log
    while True:
        for _ in range(rng.randrange(1, 20)):
            counting.append()
        log.write()
        if rng.random() < 0.5:
            log.sync()
        elif (ticket := log.begin_sync()) is not None:
            os.fdatasync(ticket[0])
            log.end_sync(ticket[1])
        print(log.durable, flush=True)
        if log.oldest_end is not None and log.disk_bytes > 3 * _SEGMENT_BYTES:
            log.release(log.oldest_end)


def _killed(directory: Path, seed: int, faults: Path, *, after: int | None) -> int:
    """Let a process append until it is killed, here after some lines; returns what was on disk."""
    command = [sys.executable, "-m", __name__, str(directory), str(seed)]
    environment = {**os.environ, "WALLAROO_FAULTS": str(faults)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as process:
        assert process.stdout is not None
        said = [b"0\n"]
        for line, durable in enumerate(process.stdout):
            said.append(durable)
            if line == after:
                process.kill()
    assert process.returncode == -9
    # the last line may be cut
    return int([line for line in said if line.endswith(b"\n")][-1])


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    faults = tmp_path / "faults"
    faults.mkdir()
    return faults


def _check(directory: Path, durable: int, counted: int) -> int:
    """Check what is there after a kill; returns how many records are counted."""
    scanned = checked(scan(directory))
    log = Log(directory, list)
    count = checked(log.recover())
    assert count == scanned
    assert log.durable >= durable
    assert count >= counted
    assert len(list(directory.glob("spare-*"))) == 0
    log.close()
    return count


def test_killed_at_random_moments(tmp_path: Path, faults: Path) -> None:
    rng = random.Random(5)
    counted = 0
    for turn in range(4):
        durable = _killed(tmp_path / "log", turn, faults, after=rng.randrange(60))
        counted = _check(tmp_path / "log", durable, counted)
    assert counted > 50


@pytest.mark.parametrize("failpoint", _FAILPOINTS)
def test_killed_at_a_failpoint(tmp_path: Path, faults: Path, failpoint: str) -> None:
    counted = 0
    for turn in range(2):
        (faults / failpoint).touch()
        durable = _killed(tmp_path / "log", turn, faults, after=None)
        assert not (faults / failpoint).exists()
        counted = _check(tmp_path / "log", durable, counted)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
