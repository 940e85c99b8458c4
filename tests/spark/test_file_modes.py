"""The modes of all files, directories and sockets of a run, compared with what SECURITY.md says."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.spark.harness import APPS, Receiver, run, send
from wallaroo.engine.realtime.shared_files import directory_of

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
_ROW = re.compile(r"^\| `(\S+)` \|.*\| (0\d{3}) \| (0\d{3}|–) \| (0\d{3}|–) \|$", re.MULTILINE)
_KINDS = {stat.S_IFDIR: 0, stat.S_IFREG: 1, stat.S_IFIFO: 1, stat.S_IFSOCK: 2}
"""Which column of the table has the mode of a kind of file."""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory for temporary files, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="modes-", dir="/tmp") as directory:
        yield Path(directory)


def documented() -> dict[str, tuple[str, str, str]]:
    """The modes of directories, files and sockets that the documentation names, by pattern."""
    rows = {row[0]: row[1:] for row in _ROW.findall((ROOT / "SECURITY.md").read_text())}
    assert len(rows) >= 3
    return rows


def found(root: Path) -> dict[Path, os.stat_result]:
    """Everything below *root*, and itself."""
    there: dict[Path, os.stat_result] = {}
    for directory, directories, files in os.walk(root):
        for path in (Path(directory), *(Path(directory, n) for n in (*directories, *files))):
            try:
                there[path] = path.lstat()
            except FileNotFoundError:  # it was temporary
                continue
    return there


def test_only_the_user_can_open_what_a_run_creates(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))
    state = tmp_path / "state"
    memory = directory_of(state / "checkpoint")
    places = {state: "STATE_DIR", temporary: "TMPDIR", memory: "/dev/shm/wallaroo-UID"}
    seen: dict[str, int] = {}

    def look() -> None:
        for root, name in places.items():
            for path, status in found(root).items():
                if path != temporary:
                    seen[str(path).replace(str(root), name, 1)] = status.st_mode

    outer = os.umask(0)
    try:
        with Receiver("lines") as receiver:
            with run(APPS / "word_count", receiver, state) as running:
                look()
                send(running.sources[SOURCE], [b"one two %d" % n for n in range(5000)])
                receiver.wait_for(15_000)
                look()
                assert running.stop() == 0
            look()
            warnings = [e for e in running.events if "open to other users" in str(e["event"])]
    finally:
        os.umask(outer)
    rows = documented()
    wrong, used = [], set()
    for path, mode in seen.items():
        pattern = next((p for p in rows if fnmatchcase(f"{path}/", p)), None)
        told = None if pattern is None else rows[pattern][_KINDS[stat.S_IFMT(mode)]]
        used.add(pattern)
        if told != f"{stat.S_IMODE(mode):04o}":
            wrong.append(f"{path} has {stat.S_IMODE(mode):04o}, documented is {told}")
    assert not wrong, "\n".join(wrong)
    assert {"STATE_DIR/**", "TMPDIR/wallaroo-*/**"} <= used
    assert not warnings
