"""A start on a disk that is full, in a file system of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import PATIENCE_S, WORD_COUNT
from wallaroo.run.background_run import BackgroundRun


class Disk:
    """A small file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, but: int = 0) -> None:
        """Leave *but* bytes free."""
        disk = os.statvfs(self.path)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - but)

    def clear(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems can be mounted by root alone")
    yield Disk(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def started(command: str, disk: Disk, *options: str) -> BackgroundRun:
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:9")
    state = ("--state-dir", str(disk.path / "state"))
    return BackgroundRun([command, str(WORD_COUNT), *addresses, *state, *options])


@pytest.mark.parametrize("left", [0, 64 * 1024])
def test_a_run_on_a_full_disk_says_which_and_what_to_do(disk: Disk, left: int) -> None:
    disk.fill(left)
    refused = started("run", disk)
    assert refused.process.wait(PATIENCE_S) == 1
    refused.__exit__()
    (told,) = [str(event["event"]) for event in refused.events]
    assert told.startswith(f"Error: the disk of {disk.path}")
    assert f"is full ({left / 1024**2:.1f} MiB of 16 MiB are free): free some space there" in told


def test_a_gateway_that_starts_on_a_full_disk_waits_for_room(disk: Disk) -> None:
    disk.fill()
    gateway = started("gateway", disk, "--listen", "127.0.0.1:0")
    waits = gateway.wait_for_event("gateway waits", PATIENCE_S)
    assert waits["reason"].startswith(f"the disk of {disk.path}")
    disk.clear()
    gateway.wait_for_event("ready", PATIENCE_S)
    assert gateway.stop() == 0
    disk.fill()
    again = started("gateway", disk, "--listen", "127.0.0.1:0")
    again.wait_for_event("gateway waits", PATIENCE_S)
    assert again.stop() == 1
    gateway.__exit__()
    again.__exit__()
    assert "free some space there, then start again" in again.events[-1]["event"]
