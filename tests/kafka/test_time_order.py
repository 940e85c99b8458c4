"""A backlog of topics and partitions counts in windows as it would have live, through kills."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.applications.texts import COUNTING
from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker, Cluster
from tests.kafka.harness import Topics
from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.reading import Reading
from wallaroo.testing import load, simulate

PARTITIONS, RECORDS, KEYS = 6, 60_000, 10
APP = (
    COUNTING
    + """
def time_of(message):
    return int(message.split()[1]) * 1_000_000

def country(message):
    return message.split()[0]

class Count(Counting):
    def output(self, key, accumulator, window):
        return f"{{key}} {{window.start_ns}} {{accumulator[0]}}"

def application_setup(args):
    source = wallaroo.KafkaSourceConfig({source!r}, {brokers!r}, bytes.decode{source_options})
    minutes = wallaroo.range_windows(wallaroo.minutes(1)).with_event_time(time_of).over(Count)
    sink = wallaroo.KafkaSinkConfig({sink!r}, {brokers!r}, wallaroo.encoder(str){sink_options})
    lines = wallaroo.source("Lines", source).key_by(country)
    return wallaroo.build_application("topics", lines.to(minutes).to_sink(sink))
"""
)


class Windowed(Topics):
    """An application with windows over a topic."""

    def describe(self, **texts: Any) -> None:
        options = {"source_options": "", "sink_options": ""}
        (self._directory / "app.py").write_text(APP.format(**{**options, **texts}))

    @property
    def app(self) -> str:
        return str(self._directory / "app.py")

    def clocks_s(self) -> tuple[float, float]:
        """What the clock shows, and that of silent keys, as its log says."""
        noted = Reading(self._directory / "state" / LOG).journal.silence.to_json()
        held_ns = dict(noted["of"]).get(0, 0)
        return noted["last"] / 1e9, (noted["last"] - held_ns) / 1e9


def test_a_backlog_of_several_topics_and_partitions_counts_as_it_would_have_live(
    broker: Broker,
) -> None:
    names, choose = [broker.topic(PARTITIONS // 2) for _ in range(2)], random.Random(1)
    begin_ms = (int(time.time()) - 7200) // 60 * 60_000
    keeps_order = {"enable.idempotence": True}  # also where a batch is sent again
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20, **keeps_order})
    live: list[bytes] = []
    for number in range(RECORDS):  # in the order in which they came live
        at = begin_ms + number * 60
        live.append(b"c%d %d" % (choose.randrange(KEYS), at))
        # unevenly: the client reads a partition with few records far ahead of the others
        partition = min(choose.randrange(PARTITIONS), choose.randrange(PARTITIONS))
        topic, partition = names[partition % 2], partition // 2
        producer.produce(topic, live[-1], partition=partition, timestamp=at)
        producer.poll(0)
    producer.flush(PATIENCE_S)
    with tempfile.TemporaryDirectory() as directory:
        app = Windowed(Path(directory), source=names, sink=broker.topic(), brokers=broker.address)
        for accepted in (1, RECORDS // 3, RECORDS // 2):  # it is killed there, or somewhat later
            with app.running() as client:
                assert client.wait_until_accepted("Lines", accepted, PATIENCE_S)
        with app.running() as client:
            assert client.wait_until_accepted("Lines", RECORDS, PATIENCE_S)
            read = app.accepted()
        application = load(app.app)
    assert sorted(read) == sorted(live)
    due = simulate(application, [("Lines", line) for line in live])
    found = simulate(application, [("Lines", line) for line in read])
    assert not found.late
    assert sorted(found.outputs) == sorted(due.outputs)


def test_keys_are_not_silent_while_no_broker_answers(broker: Broker) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.proxied}
    with tempfile.TemporaryDirectory() as directory:
        app = Windowed(Path(directory), **texts)
        broker.write(texts["source"], b"c 60000")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
            broker.proxy.manner, began_s = "hole", time.time()
            try:
                wait_until(lambda: app.clocks_s()[0] > began_s + 10.0, "the time that is stored")
            finally:
                broker.proxy.manner = "open"
            assert app.clocks_s()[1] < began_s + 5.0


def test_the_ends_of_partitions_are_told_by_the_brokers_that_answer(cluster: Cluster) -> None:
    topic = cluster.topic(count := 3)
    leaders = [cluster.leader(topic, partition) for partition in range(count)]
    for partition in range(count):
        cluster.write(topic, b"a", partition=partition)
    client = TopicClient(Topic(topic, cluster.proxied), threading.Event())

    def told(*due: int | None) -> bool:
        ends = client.ends(Partition(topic, partition) for partition in range(count))
        return [*ends.values()] == [*due]

    wait_until(lambda: told(1, 1, 1), "the ends")
    producer = Producer({"bootstrap.servers": cluster.address, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"b", partition=0)
    producer.flush(PATIENCE_S)
    assert told(1, 1, 1)  # as far as a consumer gets
    proxy = cluster.nodes[leaders[0]].proxy
    proxy.manner = "hole"
    try:
        producer.abort_transaction(PATIENCE_S)
        assert told(*(None if leader == leaders[0] else 1 for leader in leaders))
    finally:
        proxy.manner = "open"
    wait_until(lambda: told(3, 1, 1), "the end behind the transaction")
    cluster.nodes[leaders[0]].stop()
    wait_until(lambda: told(3, 1, 1), "the ends from another broker")
