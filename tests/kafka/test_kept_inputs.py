"""Outputs keep key and timestamp of their records through states and levels, and across kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.helpers import wait_until
from tests.kafka.broker import Broker
from tests.spark.harness import PATIENCE_S
from wallaroo.run.background_run import BackgroundRun

APP = """
import wallaroo

class Count:
    def __init__(self):
        self.count = 0

@wallaroo.state_computation(name="by digit", state=Count)
def by_digit(number, entity):
    entity.count += 1
    return number

@wallaroo.state_computation_multi(name="by parity", state=Count)
def by_parity(number, entity):
    entity.count += 1
    return [number, number]

@wallaroo.computation_async(name="awaited")
async def awaited(number):
    return number

def application_setup(args):
    source = wallaroo.KafkaSourceConfig({source!r}, {brokers!r}, int)
    numbers = wallaroo.source("Numbers", source)
    last = numbers.key_by(wallaroo.key_extractor(lambda number: number % 10)).to(by_digit)
    pairs = last.to(awaited).key_by(wallaroo.key_extractor(lambda number: number % 2)).to(by_parity)
    sink = wallaroo.KafkaSinkConfig({sink!r}, {brokers!r}, wallaroo.encoder(str){options})
    return wallaroo.build_application("kept", pairs.to_sink(sink))
"""
FAULTS = ("kafka-source-after-submit", "kafka-sink-after-flush", "partition-before-report")


def write(broker: Broker, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in numbers:
        key = None if number % 7 == 0 else b"key %d" % number
        producer.produce(topic, b"%d" % number, key, partition=number % 2, timestamp=due_ms(number))
    assert producer.flush(PATIENCE_S) == 0


def due_ms(number: int) -> int:
    return 1_700_000_000_000 + number


@pytest.mark.spark
def test_outputs_have_key_and_timestamp_of_their_records_whatever_is_killed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = broker.topic(2, retention_ms="-1"), broker.topic(3, retention_ms="-1")
    app, faults = tmp_path / "app.py", tmp_path / "faults"
    texts = {"source": source, "sink": sink, "brokers": broker.address}
    app.write_text(APP.format(**texts, options=""))
    faults.mkdir()
    monkeypatch.setenv("WALLAROO_FAULTS", str(faults))
    command = ["run", str(app), "--workers", "2", "--state-dir", str(tmp_path / "state")]
    rounds = [range(first, first + 200) for first in range(0, 800, 200)]

    def written(count: int) -> bool:
        return len(broker.records(sink)) >= count

    with BackgroundRun(command) as running:
        for number, (numbers, place) in enumerate(zip(rounds, ("", *FAULTS), strict=True), 1):
            if place:
                (faults / place).touch()
            write(broker, source, numbers)
            wait_until(lambda due=number: written(400 * due), "the outputs", PATIENCE_S)  # type: ignore[misc]
        assert running.stop() == 0
    found = broker.records(sink)
    assert sorted(int(record.value()) for record in found) == sorted([*range(800)] * 2)
    for record in found:
        number = int(record.value())
        assert record.key() == (None if number % 7 == 0 else b"key %d" % number)
        assert record.timestamp()[1] == due_ms(number)
    app.write_text(APP.format(**texts, options=", keep_key=False, keep_timestamp=False"))
    with BackgroundRun(command) as running:
        write(broker, source, range(800, 900))
        wait_until(lambda: written(1800), "the outputs", PATIENCE_S)
        assert running.stop() == 0
    later = [record for record in broker.records(sink) if int(record.value()) >= 800]
    assert len(later) == 200
    assert all(record.key() is None for record in later)
    assert min(record.timestamp()[1] for record in later) > due_ms(900)
