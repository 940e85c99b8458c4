"""A compacted topic as the table of a join, which is read before the stream begins."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.gateway.harness import U32
from tests.gateway.stand_in import journal_of
from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics
from wallaroo.connectors.kafka.stored import record_in
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.testing import load, simulate

PARTITIONS, RECORDS, KEYS = 3, 60_000, 500
APP = """
import wallaroo

@wallaroo.table_join(
    name="name", how="left", deleted=lambda customer: customer.value is None, table_first=True
)
def name(order, customer):
    return order + b"=" + (b"" if customer is None else customer.value)

def application_setup(args):
    of = wallaroo.KafkaSourceConfig
    orders = wallaroo.source("orders", of({source!r}, {brokers!r}, bytes))
    table = of({table!r}, {brokers!r}, lambda record: record, envelope=True)
    customers = wallaroo.source("customers", table).key_by(lambda customer: customer.key)
    named = orders.key_by(lambda order: order).join(customers, name)
    sink = wallaroo.KafkaSinkConfig({sink!r}, {brokers!r}, wallaroo.encoder(bytes))
    return wallaroo.build_application("tables", named.to_sink(sink))
"""
Rows = Mapping[bytes, bytes | None]


class Joining(Topics):
    """An application that joins a topic with a table."""

    def describe(self, **texts: Any) -> None:
        (self._directory / "app.py").write_text(APP.format(**texts))

    def joined(self) -> list[bytes]:
        """What the simulation makes of the messages that were accepted, in their order."""
        blocks = journal_of(self._directory / "state")
        messages = [
            ("customers", record_in(payload)) if block.source else ("orders", payload)
            for block in blocks
            for payload in U32.split(block.data)
        ]
        return simulate(load(str(self._directory / "app.py")), messages).outputs


@pytest.fixture
def joining(broker: Broker) -> Iterator[Joining]:
    table = broker.topic(PARTITIONS, cleanup_policy="compact")
    texts = {"source": broker.topic(), "table": table, "sink": broker.topic()}
    with tempfile.TemporaryDirectory() as directory:  # its path is short
        yield Joining(Path(directory), **texts, brokers=broker.address)


def produce(broker: Broker, topic: str, rows: Rows, producer: Producer | None = None) -> None:
    own = producer or Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    for key, value in rows.items():
        own.produce(topic, value, key)
        own.poll(0)
    assert own.flush(PATIENCE_S) == 0


def transaction(broker: Broker, topic: str, rows: Rows) -> Producer:
    """An open transaction that has written *rows*."""
    own = {"bootstrap.servers": broker.address, "transactional.id": topic, "log_level": 0}
    producer = Producer(own)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    produce(broker, topic, rows, producer)
    return producer


def keys(count: int = KEYS) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def waits(client: GatewayClient) -> str | None:
    return client.status().sources[0].waits


def test_orders_meet_the_table_as_it_was_at_the_start_through_kills(
    broker: Broker, joining: Joining
) -> None:
    table, orders = joining.texts["table"], joining.texts["source"]
    broker.write(orders, *keys())
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    for version in range(RECORDS // KEYS):
        produce(broker, table, {key: key + b" v%d" % version for key in keys()}, producer)
    produce(broker, table, dict.fromkeys(keys()[::5]))  # tombstones
    aborted = transaction(broker, table, dict.fromkeys(keys(), b"never"))
    aborted.abort_transaction(PATIENCE_S)
    accepted = RECORDS + len(keys()[::5])
    for count in (1, RECORDS // 2):  # it is killed there, or somewhat later
        with joining.running() as client:
            assert client.wait_until_accepted("customers", count, PATIENCE_S)
    with joining.running() as client:
        assert client.wait_until_accepted("orders", KEYS, PATIENCE_S)
        assert client.status().sources[1].accepted == accepted
    last = b" v%d" % (RECORDS // KEYS - 1)
    due = [key + b"=" + (key + last if int(key) % 5 else b"") for key in keys()]
    assert sorted(joining.joined()) == sorted(due)
    # what comes while the gateway is stopped is read first as well
    broker.write(orders, *keys())
    produce(broker, table, dict.fromkeys(keys()[:-1], b"new") | {keys()[-1]: None})
    with joining.running() as client:
        assert client.wait_until_accepted("orders", 2 * KEYS, PATIENCE_S)
    due += [key + b"=new" for key in keys()[:-1]] + [keys()[-1] + b"="]
    assert sorted(joining.joined()) == sorted(due)


def test_an_empty_table_holds_nobody(broker: Broker, joining: Joining) -> None:
    broker.write(joining.texts["source"], b"1")
    with joining.running() as client:
        assert client.wait_until_accepted("orders", 1, PATIENCE_S)
    assert joining.joined() == [b"1="]


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "aborts"])
@pytest.mark.parametrize("newer", [{}, {b"1": b"newer"}], ids=["at the end", "before a newer row"])
def test_orders_wait_for_the_end_of_a_transaction_that_is_open_in_the_table(
    broker: Broker, joining: Joining, newer: Rows, *, commits: bool
) -> None:
    table = joining.texts["table"]
    broker.write(joining.texts["source"], b"1")
    produce(broker, table, {b"1": b"old"})
    opened = transaction(broker, table, {b"1": b"new"})
    produce(broker, table, newer)
    with joining.running() as client:
        assert client.wait_until_accepted("customers", 1, PATIENCE_S)
        due = f"waits for table 'customers' ({'2 records' if newer else '1 record'} left)"
        wait_until(lambda: waits(client) == due, "the open transaction", PATIENCE_S)
        (opened.commit_transaction if commits else opened.abort_transaction)(PATIENCE_S)
        assert client.wait_until_accepted("orders", 1, PATIENCE_S)
    row = newer.get(b"1") or (b"new" if commits else b"old")
    assert joining.joined() == [b"1=" + row]


def test_orders_wait_for_a_table_one_of_whose_topics_is_missing(
    broker: Broker, joining: Joining
) -> None:
    table, missing = joining.texts["table"], broker.topic()
    joining.describe(**joining.texts | {"table": [table, missing]})
    broker.write(joining.texts["source"], b"1")
    produce(broker, table, {b"1": b"one"})
    broker.remove(missing)
    with joining.running() as client:
        assert client.wait_until_accepted("customers", 1, PATIENCE_S)
        due = f"waits for table 'customers', which cannot be read: topic {missing}"
        wait_until(lambda: (waits(client) or "").startswith(due), "the reason", PATIENCE_S)
        broker.make(missing)
        wait_until(lambda: waits(client) is None, "the table", PATIENCE_S)
        assert client.wait_until_accepted("orders", 1, PATIENCE_S)
        assert client.status().sources[1].problem is None
    assert joining.joined() == [b"1=one"]
