"""Async and batched steps on Spark: workers that are killed while calls wait, and bad messages."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.helpers import ASKING, wait_until
from tests.spark.harness import Receiver, run, send
from wallaroo.cli.main import main

pytestmark = pytest.mark.spark

KILLS = 3
PIECE = 120


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """The application in a file of its own, beside which it notes its calls."""
    (tmp_path / "app").mkdir()
    return Path(shutil.copy(ASKING, tmp_path / "app" / "application.py"))


def test_kills_while_calls_wait_change_no_output_and_bad_messages_are_set_aside_alone(
    application: Path, tmp_path: Path
) -> None:
    calls = application.with_name("calls")
    due = [f"{'abcdefg'[n % 7]}{n}" for n in range(PIECE * (KILLS + 1))]
    with Receiver("lines") as receiver, run(application, receiver, tmp_path / "state") as running:
        ready = running.wait_for_event("ready", 60.0)
        for piece in range(KILLS + 1):
            before = len(noted(calls))
            texts = due[piece * PIECE : (piece + 1) * PIECE]
            send(ready["sources"]["Asked"], [text.encode() for text in texts])
            if piece < KILLS:
                wait_until(lambda n=before: len(noted(calls)) > n, "a call")  # type: ignore[misc]
                os.kill(int(noted(calls)[-1].split()[0]), signal.SIGKILL)
            receiver.wait_for((piece + 1) * PIECE)
        send(ready["sources"]["Asked"], [b"a", b"kill", b"b", b"bad", b"c"])
        due += ["a", "b", "c"]
        receiver.wait_for(len(due))
        listing = CliRunner().invoke(
            main, ["dead-letters", "list", "--json", "--state-dir", str(tmp_path / "state")]
        )
        assert running.stop() == 0
        outputs = [line.decode().split() for line in receiver.messages]
    by_key: dict[str, list[str]] = defaultdict(list)
    for text in due:
        by_key[text[0]].append(text)
    for key, texts in by_key.items():
        made = [output for output in outputs if output[0][0] == key]
        assert made == [[t, str(len(t)), str(n)] for n, t in enumerate(texts, 1)]
    assert len(outputs) == len(due)
    assert len(noted(calls)) > 2 * len(due), "calls are repeated after a kill"
    letters = [json.loads(line) for line in listing.stdout.splitlines()]
    assert sorted((letter["step"], letter["error"]) for letter in letters) == [
        ("ask", "ConnectionError: bad"),
        ("ask", "SkippedCall: the call killed its process (SIGKILL)"),
    ]


def noted(calls: Path) -> list[str]:
    """The calls so far; the last line may be under way."""
    return calls.read_text().split("\n")[:-1] if calls.exists() else []
