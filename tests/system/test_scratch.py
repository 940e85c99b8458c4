"""Directories for temporary files go with their process, or after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.helpers import wait_until
from wallaroo.system.scratch import Scratch, sweep

OWNER = """
import sys
from wallaroo.system.scratch import Scratch

with Scratch() as directory:
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_directory_goes_with_its_block(place: Path) -> None:
    with Scratch("java") as directory:
        assert [Path(directory)] == list(place.iterdir())
        Path(directory, "file").touch()
    assert not list(place.iterdir())


def test_a_directory_of_a_process_that_was_killed_is_removed_by_a_later_one(place: Path) -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().decode().strip())
        (left / "deep").mkdir()
        (left / "deep" / "file").write_bytes(b"left")
        with Scratch() as mine:
            swept()
            assert left.is_dir(), "its process runs"
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            swept()
            assert not left.exists()
            assert Path(mine).is_dir()


def test_what_is_not_its_own_stays(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "owner").touch()
    (place / "wallaroo-link").symlink_to(elsewhere)
    (place / "wallaroo-file").touch()
    (place / "wallaroo-of-another-version").mkdir()
    (place / "wallaroo-linked").mkdir()
    (place / "wallaroo-linked" / "owner").symlink_to(elsewhere / "owner")
    (place / "other").mkdir()
    (place / "other" / "owner").touch()
    before = sorted(place.rglob("*"))
    swept()
    assert sorted(place.rglob("*")) == before
    assert (elsewhere / "owner").exists()


def swept() -> None:
    """Sweep to the end."""
    sweep()
    wait_until(lambda: all(t.name != "sweep" for t in threading.enumerate()), "the end")
