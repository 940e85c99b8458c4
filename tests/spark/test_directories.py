"""A state directory may have any name."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
NAME = "Zustände 100%41 #1 [a] {b}"


def wallaroo(*arguments: str) -> str:
    command = [sys.executable, "-m", "wallaroo", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def looked_up(running: BackgroundRun, key: str) -> object:
    """What the dashboard says of *key*."""
    url = running.wait_for_event("ready", PATIENCE_S)["dashboard"]
    with urllib.request.urlopen(f"{url}state?key={key}", timeout=PATIENCE_S) as answer:
        return json.load(answer)["entities"]


def test_a_state_directory_may_have_any_name(tmp_path: Path) -> None:
    app, first, second = str(APPS / "word_count"), tmp_path / NAME, tmp_path / f"{NAME} too"
    with Receiver("lines") as receiver:
        with run(APPS / "word_count", receiver, first) as running:
            send(running.sources[SOURCE], [b"word"])
            receiver.wait_for(1)
            assert running.stop() == 0
        exported = wallaroo("state", "export", app, "--state-dir", str(first))
        assert json.loads(exported)["key"] == "w"
        (tmp_path / "state.jsonl").write_text(exported)
        at = ("--state-dir", str(second))
        wallaroo("state", "import", app, str(tmp_path / "state.jsonl"), *at)
        addresses = ("--in", "127.0.0.1:0", "--out", receiver.address)
        wallaroo("repartition", app, *addresses, *at, "--partitions", "4")
        with run(APPS / "word_count", receiver, second) as running:
            send(running.sources[SOURCE], [b"word"])
            assert receiver.wait_for(2)[-1] == b"word => 2\n"
            running.wait_until_processed()
            assert looked_up(running, "w")
            assert running.stop() == 0
