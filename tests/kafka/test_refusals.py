"""Records and outputs that are refused: dead letters of a run, by the policy of their source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import wait_until
from tests.kafka.broker import Broker
from tests.spark.harness import PATIENCE_S, called
from wallaroo.run.background_run import BackgroundRun

APP = """
import wallaroo

def application_setup(args):
    brokers, source, sink = args
    lines = wallaroo.KafkaSourceConfig(source, brokers, bytes.decode, envelope=False)
    to = wallaroo.KafkaSinkConfig(sink, brokers, wallaroo.encoder(output))
    return wallaroo.build_application("refusals", wallaroo.source("Lines", lines).to_sink(to))

def output(line):
    return (line, "key", int(line)) if line.isdecimal() else line
"""


def letters_in(state: str) -> list[dict[str, Any]]:
    listing = called("dead-letters", "list", "--json", "--state-dir", state).stdout
    return [*map(json.loads, listing.splitlines())]


@pytest.mark.spark
def test_what_a_topic_gives_or_does_not_take_becomes_a_dead_letter_or_stops_the_run(
    broker: Broker, tmp_path: Path
) -> None:
    source, sink, state = broker.topic(), broker.topic(), str(tmp_path / "state")
    (tmp_path / "app.py").write_text(APP)
    command = ["run", str(tmp_path / "app.py"), "--max-frame", "1000", "--no-ui"]
    command += ["--state-dir", state]
    topics = ["--", broker.address, source, sink]
    with BackgroundRun([*command, *topics]) as running:
        broker.write(source, b"first", b"x" * 2000, b"999", b"last")
        wait_until(lambda: len(broker.values(sink)) == 2, "the outputs", PATIENCE_S)
        # the broker has them before the gateway knows what it has refused
        wait_until(lambda: len(letters_in(state)) == 2, "the dead letters", PATIENCE_S)
        assert running.stop() == 0
    assert broker.values(sink) == [b"first", b"last"]
    letters = letters_in(state)
    assert [letter["source"] for letter in letters] == ["Lines", ""]
    told = f"Refused: record 1 of partition 0 of topic {source} has 20.. bytes; the limit is 1000"
    assert re.match(told, letters[0]["error"])  # with what belongs to the record
    assert letters[0]["message"] == ""
    assert "partition 999 does not exist" in letters[1]["error"]
    with BackgroundRun([*command, "--on-error", "stop", *topics]) as running:
        broker.write(source, b"998")
        assert running.wait(PATIENCE_S) == 1
        told = "stopped because of --on-error: sink Lines, output 4: partition 998 does not exist"
        assert any(told in event["event"] for event in running.events), running.events[-5:]
    assert broker.values(sink) == [b"first", b"last"]
    with BackgroundRun([*command, "--on-error", "Lines=stop", *topics]) as running:
        broker.write(source, b"y" * 2000)
        assert running.wait(PATIENCE_S) == 1
        told = f"record 5 of partition 0 of topic {source} has 20.. bytes.*begins with b'y+'…$"
        assert any(re.search(told, event["event"]) for event in running.events), running.events[-5:]
