"""What `now` and `rng` return is the same when a message is processed again, after a kill too."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.harness import PATIENCE_S, Receiver, called, run, send

pytestmark = pytest.mark.spark

APP = Path(__file__).parent / "identifying.py"
MESSAGES = [b"kill %d" % n if n % 700 == 350 else b"%d" % n for n in range(3_000)]
HALF = 1_500


def test_calls_before_a_kill_and_a_rehearsal_have_the_same_identities(tmp_path: Path) -> None:
    state, options = tmp_path / "state", ["--calls", str(tmp_path)]
    with Receiver("lines") as receiver:
        with run(APP, receiver, state, options=["--", *options]) as running:
            send(running.sources["Identify"], MESSAGES[:HALF])
            receiver.wait_for(HALF // 2)
            os.kill(running.process.pid, signal.SIGKILL)
            running.process.wait(PATIENCE_S)
        with run(APP, receiver, state, options=["--", *options]) as running:
            send(running.sources["Identify"], MESSAGES[HALF:])
            running.wait_until_accepted("Identify", len(MESSAGES))
            running.wait_until_processed()
            assert running.stop() == 0
        outputs = [line.decode().split(" ") for line in receiver.messages]
    calls = (tmp_path / "calls").read_text().splitlines()
    texts = Counter(call.rpartition(" ")[0] for call in set(calls))
    assert texts == Counter(message.decode() for message in MESSAGES)
    assert len(calls) > len(texts)  # some were made again, as messages kill their worker
    identities = {call.rpartition(" ")[2] for call in calls}
    assert len(identities) == len(MESSAGES)
    assert {line[-8] for line in outputs if line[0] != "reminded"} == identities
    rehearsed = called("rehearse", APP, "--state-dir", state, "--", *options)
    assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
    assert f"{len(MESSAGES):,} messages run again" in rehearsed.stdout
