"""The broker of the tests is real, and comes from where it should."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka import artifacts
from tests.kafka.broker import Broker


def test_readers_of_committed_records_see_no_open_transaction(broker: Broker) -> None:
    topic = broker.topic()
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    assert broker.values(topic) == []
    assert broker.values(topic, committed=False) == [b"open"]
    producer.commit_transaction()
    assert broker.values(topic) == [b"open"]


def test_without_maven_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(artifacts, "_CACHE", tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(artifacts.NotAvailable, match="mvn is not installed"):
        artifacts.jars()
