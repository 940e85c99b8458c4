"""What runs in the pod of a broker, in the image of an application: Apache Kafka and a client.

`serve NAME` starts the broker once its jars are in `/kafka/jars` and `/kafka/complete` is there. It
admits clients by SASL over TLS at port 9092, and those in its own pod without either.
`make TOPIC PARTITIONS` makes a topic, `write TOPIC FIRST COUNT SECONDS` writes lines of two words
evenly over that time, and `read TOPIC` prints the committed records as a JSON object: for each key
the values in their order.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

PLACE = Path("/kafka")
LOCAL = "127.0.0.1:9094"
"""Where the broker listens for clients in its own pod."""
WORDS = ("apple", "bear", "cake", "deer", "elm", "fig", "goat", "hat", "ink", "jam", "kite")
_PATIENCE_S = 60.0
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=CLIENT://:9092,CONTROLLER://127.0.0.1:9093,LOCAL://127.0.0.1:9094
advertised.listeners=CLIENT://{name}:9092,LOCAL://127.0.0.1:9094
listener.security.protocol.map=CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT,LOCAL:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=LOCAL
listener.name.client.sasl.enabled.mechanisms=PLAIN
listener.name.client.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.client.ssl.keystore.type=PEM
listener.name.client.ssl.keystore.location=/secret/broker.pem
log.dirs=/kafka/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def lines(first: int, count: int) -> list[str]:
    """The lines of so many messages."""
    n = len(WORDS)
    return [f"{WORDS[i % n]} {WORDS[i * 7 % n]}" for i in range(first, first + count)]


def serve(name: str) -> None:
    """Become the broker."""
    while not (PLACE / "complete").exists():
        time.sleep(0.1)
    user, password = Path("/secret/user").read_text(), Path("/secret/password").read_text()
    properties = PLACE / "server.properties"
    properties.write_text(_PROPERTIES.format(name=name, user=user, password=password))
    java = [
        *("/opt/java/bin/java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{PLACE}/jars/*"),
    ]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    format_ = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
    subprocess.run([*java, *format_], check=True)
    os.execv(java[0], [*java, "kafka.Kafka", str(properties)])


def make(topic: str, partitions: str) -> None:
    """Make a topic, if it is not there; fails while the broker is not ready."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": LOCAL, "log_level": 0})
    made = admin.create_topics([NewTopic(topic, int(partitions), 1)], request_timeout=5.0)
    try:
        made[topic].result(10.0)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # an earlier call timed out
            raise


def write(topic: str, first: str, count: str, seconds: str) -> None:
    """Write lines, each at its time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": LOCAL, "log_level": 0})
    started, every = time.monotonic(), float(seconds) / int(count)
    for number, line in enumerate(lines(int(first), int(count))):
        time.sleep(max(0.0, started + number * every - time.monotonic()))
        producer.produce(topic, line.encode())
        producer.poll(0)
    left = producer.flush(_PATIENCE_S)
    assert left == 0, f"{left} lines were not written"


def read(topic: str) -> None:
    """Print the committed records."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": LOCAL,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, _PATIENCE_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: dict[str, list[str]] = {}
    ended: set[int | None] = set()
    while len(ended) < len(partitions):
        for message in consumer.consume(1000, 1.0):
            if (error := message.error()) is None:
                key, value = message.key() or b"", message.value() or b""
                found.setdefault(key.decode(), []).append(value.decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    print(json.dumps(found))


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "serve": serve,
        "make": make,
        "write": write,
        "read": read,
    }
    commands[sys.argv[1]](*sys.argv[2:])
