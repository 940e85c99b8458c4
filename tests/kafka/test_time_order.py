"""A backlog of several partitions counts in windows as it would have live, through kills."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.applications.texts import COUNTING
from tests.helpers import PATIENCE_S
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics
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

    def describe(self, **texts: str) -> None:
        options = {"source_options": "", "sink_options": ""}
        (self._directory / "app.py").write_text(APP.format(**{**options, **texts}))

    @property
    def app(self) -> str:
        return str(self._directory / "app.py")


def test_a_backlog_of_several_partitions_counts_as_it_would_have_live(broker: Broker) -> None:
    topic, choose = broker.topic(PARTITIONS), random.Random(1)
    begin_ms = (int(time.time()) - 7200) // 60 * 60_000
    keeps_order = {"enable.idempotence": True}  # also where a batch is sent again
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20, **keeps_order})
    live: list[bytes] = []
    for number in range(RECORDS):  # in the order in which they came live
        at = begin_ms + number * 60
        live.append(b"c%d %d" % (choose.randrange(KEYS), at))
        # unevenly: the client reads a partition with few records far ahead of the others
        partition = min(choose.randrange(PARTITIONS), choose.randrange(PARTITIONS))
        producer.produce(topic, live[-1], partition=partition, timestamp=at)
        producer.poll(0)
    producer.flush(PATIENCE_S)
    with tempfile.TemporaryDirectory() as directory:
        app = Windowed(Path(directory), source=topic, sink=broker.topic(), brokers=broker.address)
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
