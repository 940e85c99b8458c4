"""A gateway that starts beside another one takes over its log, and its senders resume."""

from __future__ import annotations

import contextlib
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import opened
from tests.helpers import PATIENCE_S, WORD_COUNT, free_address
from wallaroo.client import Sender
from wallaroo.run.background_run import BackgroundRun

SOURCE = "Split and Count"
WAITS = "waiting to take over"


@contextlib.contextmanager
def gateway(
    state: Path, source: str, *options: str, app: Path = WORD_COUNT
) -> Iterator[BackgroundRun]:
    command = ["gateway", str(app), "--in", source, "--out", "127.0.0.1:9"]
    command += ["--listen", f"unix:{state.parent}/gateway.sock", "--state-dir", str(state)]
    running = BackgroundRun([*command, *options])
    try:
        yield running
    finally:
        running.__exit__()


def test_a_gateway_waits_ready_until_the_other_one_ends(tmp_path: Path) -> None:
    source, health, state = free_address(), free_address(), tmp_path / "state"
    beside = ("--take-over", "--health", health)
    with gateway(state, source, "--take-over") as old, Sender(source, "stream") as sender:
        old.wait_for_event("ready", PATIENCE_S)
        with gateway(state, source, *beside) as stopped:
            stopped.wait_for_event(WAITS, PATIENCE_S)
            stopped.process.send_signal(signal.SIGTERM)
            assert stopped.wait(PATIENCE_S) == 0
        with gateway(state, source, *beside) as new:
            new.wait_for_event(WAITS, PATIENCE_S)
            with urllib.request.urlopen(f"http://{health}/readyz", timeout=PATIENCE_S) as answer:
                assert answer.read().decode().strip() == WAITS
            for page in ("status", "metrics"):
                with pytest.raises(urllib.error.HTTPError, match="503"):
                    urllib.request.urlopen(f"http://{health}/{page}", timeout=PATIENCE_S)
            sender.send(b"to the old one")
            sender.flush()
            old.process.send_signal(signal.SIGTERM)
            sender.send(b"to any")
            sender.flush()
            new.wait_for_event("ready", PATIENCE_S)
            assert old.wait(PATIENCE_S) == 0
            sender.send(b"to the new one")
            sender.flush()
            with urllib.request.urlopen(f"http://{health}/readyz", timeout=PATIENCE_S) as answer:
                assert answer.read().decode().strip() != WAITS
            new.process.send_signal(signal.SIGTERM)
            assert new.wait(PATIENCE_S) == 0
    with opened(state, sources=(SOURCE,), sinks=(SOURCE,)) as store:
        found = b"".join(block.data for block in store.journal.read(0, 3))
    assert all(part in found for part in (b"to the old one", b"to any", b"to the new one"))


def test_a_gateway_that_lacks_a_source_for_which_messages_wait_is_never_ready(
    tmp_path: Path,
) -> None:
    source, state = free_address(), tmp_path / "state"
    other = Path(shutil.copytree(WORD_COUNT, tmp_path / "other"))
    code = (other / "application.py").read_text()
    assert SOURCE in code
    (other / "application.py").write_text(code.replace(SOURCE, "Another"))
    with gateway(state, source) as old, Sender(source, "stream") as sender:
        old.wait_for_event("ready", PATIENCE_S)
        sender.send(b"waits")
        sender.flush()
        with gateway(state, source, "--take-over", app=other) as new:
            assert new.wait(PATIENCE_S) == 1
            assert WAITS not in [event.get("event") for event in new.events]
        sender.send(b"is accepted")
        sender.flush()
