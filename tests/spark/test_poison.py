"""Messages that kill their worker, or hold it up: set aside, and the stream goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.helpers import MISBEHAVING
from tests.spark.harness import PATIENCE_S, Receiver, run, send
from wallaroo.cli.main import main

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("memory", [(), ("--state-memory-gib", "1e-9")])
def test_the_stream_goes_on_without_the_messages_that_kill_hang_or_damage(
    tmp_path: Path, memory: tuple[str, ...]
) -> None:
    state = tmp_path / "state"
    options = ("--function-timeout", "2", *memory)
    bad = [b"abort in the decoder", b"p exit with an error", b"h hang", b"i interrupt"]
    damage = [b"a close", b"b replace pickle", b"a replace built-ins", b"b forget modules"]
    forks = [b"e fork", b"f fork twice"]
    with (
        Receiver("lines") as receiver,
        run(MISBEHAVING, receiver, state, options=options) as running,
    ):
        source = running.sources["Texts"]
        send(source, [b"a", b"b", *bad, b"a", b"p", b"h", b"i"])
        made = [b"a 1\n", b"a 2\n", b"b 1\n", b"h 1\n", b"i 1\n", b"p 1\n"]
        assert sorted(receiver.wait_for(6)) == made
        send(source, [b"a", *damage, b"b"])
        assert sorted(receiver.wait_for(8)[6:]) == [b"a 3\n", b"b 2\n"]
        send(source, [b"a", *forks, b"b"])
        assert sorted(receiver.wait_for(12)[8:]) == [b"a 4\n", b"b 3\n", b"e 1\n", b"f 1\n"]
        listing = CliRunner().invoke(
            main, ["dead-letters", "list", "--json", "--state-dir", str(state)]
        )
        assert running.stop() == 0
    letters = [json.loads(line) for line in listing.stdout.splitlines()]
    python = "SkippedCall: the call replaced a part of Python, or a module, that its process needs"
    assert sorted((letter["step"], letter["error"]) for letter in letters) == [
        ("add", "KeyboardInterrupt"),
        (
            "add",
            "SkippedCall: the call closed or replaced a connection or a file of its process, "
            "or wrote to it",
        ),
        ("add", "SkippedCall: the call ended its process (exit code 1)"),
        *[("add", python)] * 3,
        ("add", "SkippedCall: the call took longer than 2 s"),
        ("decoder", "SkippedCall: the call killed its process (SIGABRT)"),
    ]
    assert all(letter["payload"] for letter in letters)


def test_the_policy_stop_ends_the_application_before_the_batch_counts(tmp_path: Path) -> None:
    state = tmp_path / "state"
    options = ("--on-error", "Texts=stop")
    with (
        Receiver("lines") as receiver,
        run(MISBEHAVING, receiver, state, options=options) as running,
    ):
        ready = running.wait_for_event("ready", 60.0)
        send(ready["sources"]["Texts"], [b"a", b"\xff"])
        assert running.wait(PATIENCE_S) == 1
        assert receiver.messages == []
    said = running.events[-1]["event"]
    assert "stopped because of --on-error: a message of source 'Texts'" in said
    assert "UnicodeDecodeError" in said
    assert "misbehaving.py:" in said
