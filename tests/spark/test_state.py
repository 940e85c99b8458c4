"""`wallaroo state`: the entities of an application that runs, and of one that is stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.harness import APPS, Receiver, run, send

pytestmark = pytest.mark.spark

APP = str(APPS / "word_count")


def state(command: str, *arguments: str) -> str:
    called = [sys.executable, "-m", "wallaroo", "state", command, APP, *arguments]
    done = subprocess.run(called, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_entities_are_told_while_the_application_runs_and_when_it_is_stopped(
    tmp_path: Path,
) -> None:
    at = ("--state-dir", str(tmp_path))
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, tmp_path) as running:
        for words in (9, 18):  # when the second batch begins, the first one is committed
            send(running.sources["Split and Count"], [b"one two two"] * 3)
            receiver.wait_for(words)
            running.wait_until_processed()
        shown = json.loads(state("show", "t", *at))
        assert running.stop() == 0
    assert shown["key"] == "t"
    assert shown["entity"]["word_totals"]["two"] in {6, 12}
    exported = [json.loads(line) for line in state("export", *at).splitlines()]
    totals = {told["key"]: told["entity"]["word_totals"] for told in exported}
    assert totals == {"o": {"one": 6}, "t": {"two": 12}}
