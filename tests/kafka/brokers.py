"""What tests do with the topics of a broker or of several."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.helpers import PATIENCE_S, wait_until

_QUIET: dict[str, Any] = {"reconnect.backoff.max.ms": 200, "log_level": 0}


class Brokers:
    """Brokers that answer at an address.

    Args:
        address: `HOST:PORT`, separated by commas.
        replication: How many brokers have each record of the topics that are made.
    """

    def __init__(self, address: str, replication: int = 1) -> None:
        self.address = address
        self._replication = replication
        self.connect()

    def connect(self) -> None:
        """Connect anew."""
        self.admin = AdminClient({"bootstrap.servers": self.address, **_QUIET})

    def answering(self) -> int:
        """How many brokers there are, as one of them tells; 0 if none answers."""
        with contextlib.suppress(Exception):
            return len(self.admin.list_topics(timeout=1.0).brokers)
        return 0

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic, once it can be used."""
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self.make(name, partitions, **config)
        return name

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make the topic *name*; underscores in *config* stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wanted = NewTopic(name, partitions, self._replication, config=settings)
        self.admin.create_topics([wanted])[name].result(PATIENCE_S)
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

    def set_committed(self, group: str, topic: str, offset: int, note: str) -> None:
        """Change what *group* has committed for the first partition of *topic*."""
        changed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset, note)])
        for done in self.admin.alter_consumer_group_offsets([changed]).values():
            done.result(PATIENCE_S)

    def forget_group(self, group: str) -> None:
        """Delete what *group* has committed."""
        for deleted in self.admin.delete_consumer_groups([group]).values():
            deleted.result(PATIENCE_S)

    def user(self, password: str) -> str:
        """A new user, who may do nothing."""
        name = f"user-{uuid.uuid4().hex[:8]}"
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        made = UserScramCredentialUpsertion(name, how, password.encode())
        self.admin.alter_user_scram_credentials([made])[name].result(PATIENCE_S)
        return name

    def allow(
        self, user: str, operation: str, kind: str, name: str, *, prefix: bool = False
    ) -> None:
        """Let *user* do *operation* on a resource, or on all whose names begin with *name*."""
        binding = AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        self.admin.create_acls([binding])[binding].result(PATIENCE_S)

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """What *group* has committed for a partition of *topic*; negative if nothing."""
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])]
        found = self.admin.list_consumer_group_offsets(asked)[group].result(PATIENCE_S)
        return int(found.topic_partitions[0].offset)

    def write(self, topic: str, *values: bytes, partition: int = 0, **settings: Any) -> None:
        """Write records without keys, each once, as soon as the brokers take them."""
        own = {"bootstrap.servers": self.address, "enable.idempotence": True, **_QUIET}
        producer = Producer({**own, **settings})
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE_S) == 0

    def reader(
        self, topic: str, *, committed: bool = True, offsets: Mapping[int, int] | None = None
    ) -> Consumer:
        """A consumer of all partitions of *topic*, which tells of their ends.

        It begins at *offsets*, by partition, and else at 0.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"reader-{uuid.uuid4().hex}",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                **_QUIET,
            }
        )
        partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        begin = offsets or {}
        consumer.assign([TopicPartition(topic, at, begin.get(at, 0)) for at in partitions])
        return consumer

    def records(self, topic: str, *, committed: bool = True) -> list[Any]:
        """All records of *topic*, by partition; *committed* leaves out those of open transactions.

        A record is a message of the client.
        """
        found, ended = [], set[int]()
        with contextlib.closing(self.reader(topic, committed=committed)) as consumer:
            count = len(consumer.assignment())
            while len(ended) < count:
                for message in consumer.consume(1000, 1.0):
                    if (error := message.error()) is None:
                        found.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition() or 0)
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def values(self, topic: str, *, committed: bool = True) -> list[bytes]:
        """The values of all records of *topic*."""
        return [message.value() for message in self.records(topic, committed=committed)]

    def open_transactions(self, topic: str, partition: int = 0) -> bool:
        """Whether records of a partition wait for the end of a transaction."""
        at = TopicPartition(topic, partition)
        ends = set()
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            asked = self.admin.list_offsets({at: latest}, isolation_level=level)
            ends.add(asked[at].result(PATIENCE_S).offset)
        return len(ends) > 1

    def _has(self, topic: str, partitions: int) -> bool:
        found = self.admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
        return found is not None and len(found.partitions) >= partitions and found.error is None
