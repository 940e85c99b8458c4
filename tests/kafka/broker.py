"""A real broker of Apache Kafka on free ports, which tests stop, kill and start again."""

from __future__ import annotations

import base64
import contextlib
import signal
import socket
import subprocess
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.artifacts import jars
from wallaroo.engine.spark.java import find_java

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""


class Broker:
    """One broker, which is its own controller.

    Args:
        directory: Where its data and its log are.

    Raises:
        NotAvailable: Kafka cannot be fetched.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._java = [
            *(find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars()}/*"),
        ]
        ports = _free_ports()
        self.address = f"127.0.0.1:{ports[0]}"
        self._properties = directory / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(directory=directory, port=ports[0], controller=ports[1])
        )
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._call("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._directory / "log.txt").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        settings: dict[str, Any] = {"reconnect.backoff.max.ms": 200, "log_level": 0}
        self.admin = AdminClient({"bootstrap.servers": self.address, **settings})
        wait_until(self._answers, "the broker", 2 * PATIENCE_S)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic, once it can be used."""
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self.make(name, partitions, **config)
        return name

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make the topic *name*; underscores in *config* stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
        made[name].result(PATIENCE_S)
        wait_until(lambda: self._has(name, partitions), f"topic {name}")

    def grow(self, topic: str, partitions: int) -> None:
        """Give *topic* more partitions."""
        grown = self.admin.create_partitions([NewPartitions(topic, partitions)])
        grown[topic].result(PATIENCE_S)
        wait_until(lambda: self._has(topic, partitions), f"topic {topic}")

    def remove(self, topic: str) -> None:
        """Delete *topic*."""
        self.admin.delete_topics([topic])[topic].result(PATIENCE_S)
        wait_until(lambda: not self._has(topic, 1), "the end of the topic")

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition that are older than offset *before*."""
        upto = TopicPartition(topic, partition, before)
        for deleted in self.admin.delete_records([upto]).values():
            deleted.result(PATIENCE_S)

    def write(self, topic: str, *values: bytes, partition: int = 0, **settings: Any) -> None:
        """Write records without keys."""
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0, **settings})
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE_S) == 0

    def records(self, topic: str, *, committed: bool = True) -> list[Any]:
        """All records of *topic*, by partition; *committed* leaves out those of open transactions.

        A record is a message of the client.
        """
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"reader-{uuid.uuid4().hex}",
                "isolation.level": level,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        with contextlib.closing(consumer):
            partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            found, ended = [], set[int]()
            while len(ended) < len(partitions):
                for message in consumer.consume(1000, 1.0):
                    if (error := message.error()) is None:
                        found.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition() or 0)
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def values(self, topic: str, *, committed: bool = True) -> list[bytes]:
        """The values of all records of *topic*."""
        return [message.value() for message in self.records(topic, committed=committed)]

    def _has(self, topic: str, partitions: int) -> bool:
        found = self.admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
        return found is not None and len(found.partitions) >= partitions and found.error is None

    def _answers(self) -> bool:
        assert self._process is not None
        log = (self._directory / "log.txt").read_text()
        assert self._process.poll() is None, f"the broker ended: {log[-2000:]}"
        with contextlib.suppress(Exception):
            return bool(self.admin.list_topics(timeout=1.0).brokers)
        return False

    def _call(self, *command: str) -> None:
        subprocess.run([*self._java, *command], check=True, capture_output=True, timeout=PATIENCE_S)


def _free_ports() -> list[int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        return [one.getsockname()[1], two.getsockname()[1]]
