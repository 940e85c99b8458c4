"""`wallaroo demo` of an application that has topics beside ports."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.helpers import ROOT
from tests.kafka.broker import Broker
from tests.kafka.test_word_count import APP
from wallaroo.cli.main import main

DEMO = """
import collections

OUTPUT_FRAMING = "lines"

def rounds(messages, seed):
    for turn in range(messages // 50):
        yield ("Topic", "Port")[turn % 2], [b"apple bear apple"] * 50

def expected(sent):
    counts = collections.Counter()
    for _, payloads in sent:
        outputs = []
        for word in b" ".join(payloads).decode().split():
            counts[word] += 1
            outputs.append(f"{word} => {counts[word]}\\n".encode())
        yield outputs

def comparable(output):
    return output

def key(output):
    return output.split()[0]
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An application that reads a topic and a port, and writes a topic."""
    app = APP.format(word_count=str(tmp_path)).replace("application as word_count", "word_count")
    (tmp_path / "application.py").write_text(app)
    shutil.copy(ROOT / "apps/word_count/application.py", tmp_path / "word_count.py")
    (tmp_path / "demo.py").write_text(DEMO)
    return tmp_path


def command(directory: Path, broker: Broker, source: str, sink: str) -> list[str]:
    options = {
        "kafka_source_topic": source,
        "kafka_source_brokers": broker.address,
        "kafka_sink_topic": sink,
        "kafka_sink_brokers": broker.address,
    }
    given = [f"--{name}={value}" for name, value in options.items()]
    return ["demo", str(directory), "--messages", "400", "--workers", "1", "--", *given]


@pytest.mark.spark
def test_data_goes_through_topics_and_ports_and_outputs_come_from_topics(
    broker: Broker, directory: Path
) -> None:
    source, sink = broker.topic(2), broker.topic(2)
    broker.write(sink, b"apple => 7\n")  # from before, and no output of the demo
    done = subprocess.run(
        [sys.executable, "-m", "wallaroo", *command(directory, broker, source, sink)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK: all 1,200 outputs are those of the plain-Python computation" in done.stdout
    assert len(broker.records(source)) == 200


@pytest.mark.parametrize(
    ("records", "source", "told"),
    [
        (1, "", r"topic topic-\w+ at [\d.:]+ has records: a demo requires an empty topic"),
        (0, "nowhere", "topic nowhere, or a partition of it, does not exist at .*: create it"),
    ],
)
def test_a_topic_that_cannot_be_used_is_told_before_anything_starts(
    broker: Broker, directory: Path, records: int, source: str, told: str
) -> None:
    topic = broker.topic()
    broker.write(topic, *[b"apple"] * records)
    result = CliRunner().invoke(main, command(directory, broker, source or topic, topic))
    assert result.exit_code != 0
    assert re.search(told, result.output), result.output
    assert "starting Spark" not in result.output
