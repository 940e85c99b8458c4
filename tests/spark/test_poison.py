"""Messages that kill their worker, or hold it up: set aside, and the stream goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.spark.harness import PATIENCE_S, Receiver, run, send
from wallaroo.cli.main import main

pytestmark = pytest.mark.spark

APPLICATION = """
import os
import time

import wallaroo


def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Poison")
    builder.new_pipeline("Poison", wallaroo.TCPSourceConfig(host, port, decode))
    builder.to_state_partition(count, Seen, "seen", key)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return builder.build()


class Seen:
    def __init__(self):
        self.messages = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    if payload == b"poison for the first stage":
        os.abort()
    return payload.decode()


@wallaroo.partition
def key(text):
    return text[0]


@wallaroo.state_computation(name="count")
def count(text, seen):
    if text == "poison for the state":
        os._exit(1)
    if text == "interrupt":
        raise KeyboardInterrupt
    while text == "hang":
        time.sleep(0.1)
    seen.messages += 1
    return (f"{text[0]} {seen.messages}", True)


@wallaroo.encoder
def encode(text):
    return text + "\\n"
"""


def test_the_batch_goes_on_without_the_messages_that_kill_or_hang(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    state = tmp_path / "state"
    options = ("--function-timeout", "2")
    bad = [b"poison for the first stage", b"poison for the state", b"hang", b"interrupt"]
    with Receiver("lines") as receiver, run(tmp_path, receiver, state, options=options) as running:
        ready = running.wait_for_event("ready", 60.0)
        send(ready["sources"]["Poison"], [b"a", b"b", *bad, b"a", b"p", b"h", b"i"])
        made = [b"a 1\n", b"a 2\n", b"b 1\n", b"h 1\n", b"i 1\n", b"p 1\n"]
        assert sorted(receiver.wait_for(6)) == made
        listing = CliRunner().invoke(
            main, ["dead-letters", "list", "--json", "--state-dir", str(state)]
        )
        assert running.stop() == 0
    letters = [json.loads(line) for line in listing.stdout.splitlines()]
    assert sorted((letter["step"], letter["error"]) for letter in letters) == [
        ("count", "KeyboardInterrupt: "),
        ("count", "SkippedCall: the call ended its process (exit code 1)"),
        ("count", "SkippedCall: the call took longer than 2 s"),
        ("decoder", "SkippedCall: the call killed its process (SIGABRT)"),
    ]
    assert all(letter["payload"] for letter in letters)


def test_the_policy_stop_ends_the_application_before_the_batch_counts(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    state = tmp_path / "state"
    options = ("--on-error", "Poison=stop")
    with Receiver("lines") as receiver, run(tmp_path, receiver, state, options=options) as running:
        ready = running.wait_for_event("ready", 60.0)
        send(ready["sources"]["Poison"], [b"a", b"\xff"])
        assert running.process.wait(PATIENCE_S) == 1
        running._reader.join()
        assert receiver.messages == []
    said = running.events[-1]["event"]
    assert "stopped, as --on-error asks: a message of source 'Poison'" in said
    assert "UnicodeDecodeError" in said
    assert "application.py:" in said
