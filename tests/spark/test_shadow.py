"""Code that runs beside an application whose processes are killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.spark.harness import APPS, PATIENCE_S, Receiver, called, kill_gateway, run, send
from wallaroo.cli.options import application_without_addresses
from wallaroo.cli.saved_state import committed_state
from wallaroo.gateway.damage import LOG
from wallaroo.history.records import followed
from wallaroo.history.rehearsal import Rehearsal

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
WORDS = [b"w%d x" % (number % 400) for number in range(10_000)]
EARLIER, MORE = WORDS[:2_000], 1_000
"""What the checkpoint has, and how many messages come between two kills."""


class Shadow:
    """The same code, beside an application; a thread.

    Args:
        state: The state directory.
    """

    def __init__(self, state: Path) -> None:
        self._state, self._over, self._passes_left = state, threading.Event(), 2
        self.rehearsal: Rehearsal | None = None
        self._pinned = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._pinned.wait(PATIENCE_S)

    def finish(self) -> Rehearsal:
        """Read to the end, and compare."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert self.rehearsal is not None
        self.rehearsal.compare()
        return self.rehearsal

    def _run(self) -> None:
        application = application_without_addresses(str(APPS / "word_count"), ())
        with followed(self._state / LOG, self._waits) as records_since:
            beginning = committed_state(application, self._state)
            assert beginning is not None
            records = records_since(beginning.offset)
            self.rehearsal = Rehearsal(application, records, beginning)
            self._pinned.set()
            for _ in self.rehearsal:
                pass

    def _waits(self) -> bool:
        if self._over.wait(0.02):
            self._passes_left -= 1
        return self._passes_left > 0


def test_equal_code_differs_in_nothing_through_kills_and_other_code_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    with Receiver("lines") as receiver:
        with run(APPS / "word_count", receiver, state) as running:
            send(running.sources[SOURCE], EARLIER)
            receiver.wait_for(2 * len(EARLIER))
            assert running.stop() == 0
        shadow, sent = None, len(EARLIER)
        for number in range(4):
            if number == 3:  # no checkpoint will contain later messages
                pace = "epoch_first_s=600,epoch_least_s=600,quiet_s=600"
                monkeypatch.setenv("WALLAROO_PACE", pace)
            with run(APPS / "word_count", receiver, state) as running:
                shadow = shadow or Shadow(state)
                for kills in (number % 2, 0):
                    send(running.sources[SOURCE], WORDS[sent : sent + MORE])
                    sent += MORE
                    running.wait_until_accepted(SOURCE, sent)
                    running.wait_until_processed()
                    if kills:
                        kill_gateway(running)
                        running.wait_for_event("gateway restarted", PATIENCE_S)
                receiver.wait_for(2 * sent)
                if number != 2:
                    os.kill(running.process.pid, signal.SIGKILL)
                    running.process.wait(PATIENCE_S)
                else:
                    assert running.stop() == 0
        assert shadow is not None
        rehearsal = shadow.finish()
    assert rehearsal.messages == sent - len(EARLIER)
    assert rehearsal.sinks[SOURCE].same == 2 * rehearsal.messages
    assert rehearsal.differing_names() == set()

    code = (APPS / "word_count" / "application.py").read_text()
    planted = code.replace("+ 1\n", "+ (2 if word == 'w7' else 1)\n")
    assert planted != code
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "application.py").write_text(planted)
    command = [sys.executable, "-m", "wallaroo", "shadow", str(tmp_path / "new"), "--state-dir"]
    with subprocess.Popen(
        [*command, str(state)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stderr is not None
        found = "state 'word totals', .word_totals[…]: 'w': .word_totals['w7']"
        assert any(found in line for line in other.stderr)
        other.send_signal(signal.SIGINT)
        report, _ = other.communicate(timeout=PATIENCE_S)
    assert other.returncode == 1
    assert "1 differs" in report
    check_explanation(state, sent)


def check_explanation(state: Path, sent: int) -> None:
    """Check what is explained from the checkpoint on, after so many messages."""
    beginning = committed_state(application_without_addresses(str(APPS / "word_count"), ()), state)
    assert beginning is not None
    options = ("--changes", 1, "--state-dir", state, "--snapshot", state)
    done = called("explain", APPS / "word_count", "x", *options)
    assert f".word_totals['x'] {sent - 1} → {sent}" in done.stdout
    left = sent - beginning.offset - 1
    assert done.stderr == f"{left:,} earlier changes left out; --changes {left + 1} shows all\n"
