"""A client that no longer fetches what is there is replaced by another one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from tests.gateway.harness import NOWHERE, U32
from tests.helpers import PATIENCE_S
from wallaroo.connectors.kafka.client import FoundTopic, TopicClient
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.source import KafkaReader
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.store import Store

RECORDS = 3


class Client:
    """A consumer of a partition that has records; it gets *records*."""

    def __init__(self, records: Iterator[Message]) -> None:
        self._records = records

    def poll(self, _timeout_s: float) -> Message | None:
        return next(self._records, None)

    def consume(self, _most: int, _timeout_s: float) -> list[Message]:
        return []

    def assign(self, assigned: list[TopicPartition]) -> None:
        ((topic, partition, offset),) = [(at.topic, at.partition, at.offset) for at in assigned]
        assert (topic, partition) == ("lines", 0)
        self._records = itertools.islice(self._records, offset, None)

    def commit(self, **_: Any) -> None: ...

    def close(self) -> None: ...


def records() -> Iterator[Message]:
    for offset in range(RECORDS):
        yield Message(topic="lines", partition=0, offset=offset, value=b"%d" % offset)


@pytest.mark.parametrize("got", [0, 1])
def test_a_client_that_gets_nothing_more_of_what_is_there_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, got: int
) -> None:
    made = [Client(itertools.islice(records(), got)), Client(records())]
    clients, problems = iter(made), list[str]()
    monkeypatch.setattr(TopicClient, "check", lambda _client: None)
    monkeypatch.setattr(TopicClient, "ask", lambda _client, names: dict.fromkeys(names))
    monkeypatch.setattr(TopicClient, "answered", lambda *_: FoundTopic("id", [0]))
    monkeypatch.setattr(TopicClient, "consumer", lambda *_, **__: next(clients))
    monkeypatch.setattr("wallaroo.connectors.kafka.source._STILL_S", 0.0)
    bounds = "wallaroo.connectors.kafka.source.bounds_of"
    monkeypatch.setattr(bounds, lambda _client, found: dict.fromkeys(found, (0, RECORDS)))
    topic = Topic("lines", "nowhere:9092", {"topic.metadata.refresh.interval.ms": 0})
    store = Store(tmp_path)
    source = KafkaSource("lines", U32, bytes, NOWHERE, topic)
    reader = KafkaReader(ConnectorContext(store.journal, store.outbox), 0, source)
    monkeypatch.setattr(reader, "_failed", lambda reason, *_: problems.append(reason))
    reader.start()
    try:
        assert store.journal.wait_accepted(0, RECORDS, PATIENCE_S)
        assert problems == [
            "the client for topic lines at nowhere:9092 has stopped reading partition 0 of "
            "topic lines; it is replaced"
        ]
        assert next(clients, None) is None
    finally:
        reader.stop()
        store.close()
