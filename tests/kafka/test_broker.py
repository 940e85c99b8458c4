"""The brokers of the tests are real, come from where they should, and share no port."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka import artifacts
from tests.kafka.broker import Broker, free_addresses


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


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = free_addresses(1)
    port = int(first.rpartition(":")[2])
    drawn = itertools.chain([port, port], itertools.count(port + 1))
    monkeypatch.setattr(random, "randrange", lambda *_bounds: next(drawn))
    assert first not in free_addresses(2)
