"""State larger than memory in a run: what is in local stores counts like what is in memory."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import LARGE
from tests.spark.harness import PATIENCE_S, Receiver, called, run, send
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

LITTLE = ("--state-memory-gib", "1e-9")
KEYS = [f"k{number}" for number in range(500)]


def stored_entities(running: BackgroundRun) -> int:
    (url,) = [event["dashboard"] for event in running.events if event["event"] == "ready"]
    with urllib.request.urlopen(f"{url}metrics", timeout=PATIENCE_S) as answer:
        found = re.search(
            rb"^wallaroo_state_stored_entities\{[^}]*\} (\S+)", answer.read(), re.MULTILINE
        )
    return 0 if found is None else int(float(found[1]))


def test_entities_in_local_stores_survive_kills_and_the_end_of_the_option(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Receiver("lines") as receiver:
        for turn, options in enumerate([LITTLE, LITTLE, ()], 1):
            with run(LARGE, receiver, state, options=options) as running:
                for some in (KEYS, KEYS[:10]):
                    before = len(receiver.messages)
                    send(running.sources["Texts"], [f"{key} 0".encode() for key in some])
                    receiver.wait_for(before + len(some))
                assert (stored_entities(running) > 400) == bool(options)
                if turn < 3:
                    running.process.kill()
                    running.wait(PATIENCE_S)
                else:
                    assert running.stop() == 0
    exported = called("state", "export", LARGE, "--state-dir", state)
    assert exported.returncode == 0, exported.stderr
    keys = Counter(json.loads(line)["key"] for line in exported.stdout.splitlines())
    assert keys == Counter(KEYS)


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files, on a small disk of its own; its path is short enough."""
    place = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems can be mounted by root alone")
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


def test_a_run_whose_local_stores_find_no_room_waits_for_it(tmp_path: Path, scratch: Path) -> None:
    with (
        Receiver("lines") as receiver,
        run(LARGE, receiver, tmp_path / "state", options=LITTLE) as running,
    ):
        send(running.sources["Texts"], [f"{key} 1".encode() for key in KEYS[:60]])
        waits = running.wait_for_event("query waits", PATIENCE_S)
        found_by = f"the local store of entities in {scratch} failed", f"the disk of {scratch}"
        assert any(words in waits["reason"] for words in found_by), waits
        subprocess.run(["mount", "-o", "remount,size=512m", str(scratch)], check=True)
        receiver.wait_for(60)
        assert running.stop() == 0
