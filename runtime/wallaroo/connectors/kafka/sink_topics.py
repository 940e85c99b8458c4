"""The topics that a sink writes: its own, and those that records name."""

from __future__ import annotations

from wallaroo.connectors.kafka.client import FoundTopic, TopicClient
from wallaroo.connectors.kafka.problems import KafkaProblem, UnknownTopic
from wallaroo.connectors.kafka.sink_note import RefusedRecord


class SinkTopics:
    """What the brokers say about the topics, until `open` is called again.

    Args:
        client: The client of the sink's own topic.
    """

    def __init__(self, client: TopicClient) -> None:
        self._clients = {client.topic.name: client}
        self._own = client
        self._known: dict[str, FoundTopic] = {}
        self._missing: dict[str, UnknownTopic] = {}
        """Topics that do not exist, by what was said since the transaction began."""
        self._asked: set[str] = set()
        """Topics that were asked for since then."""

    def open(self) -> None:
        """Forget all topics but the sink's own.

        Raises:
            KafkaProblem: It cannot be written now.
        """
        self._known = {}
        self.begin()
        self._describe(self._own)

    def begin(self) -> None:
        """Note that a transaction begins: topics and partitions may have been added since then."""
        self._missing, self._asked = {}, set()

    def client(self, name: str) -> TopicClient:
        """The client of the topic *name*."""
        if name not in self._clients:
            self._clients[name] = self._own.of_topic(name)
        return self._clients[name]

    def refusal(self, name: str, partition: int | None) -> RefusedRecord | None:
        """Why the topic *name* does not take a record for *partition*; None if it does.

        Raises:
            KafkaProblem: The topic cannot be written now, or no broker says whether it exists.
        """
        known = self._known.get(name)
        if known is not None and (partition is None or partition in known.partitions):
            return None
        if name not in self._asked:
            self._ask(name)
            return self.refusal(name, partition)
        from confluent_kafka import KafkaError

        if known is None:
            return RefusedRecord(KafkaError._UNKNOWN_TOPIC, str(self._missing[name]))  # noqa: SLF001
        reason = (
            f"partition {partition} does not exist: {self.client(name).topic} has "
            f"{len(known.partitions)} partitions; add some, or let the encoder return another one"
        )
        return RefusedRecord(KafkaError._UNKNOWN_PARTITION, reason)  # noqa: SLF001

    def check(self) -> None:
        """Look whether the topics are still the same.

        Raises:
            KafkaProblem: They are not, or no broker says.
        """
        for name in [*self._known]:
            self._describe(self.client(name))

    def _ask(self, name: str) -> None:
        self._asked.add(name)
        client = self.client(name)
        try:
            self._describe(client)
        except UnknownTopic as problem:
            if client is self._own:
                raise
            self._known.pop(name, None)
            self._missing[name] = problem

    def _describe(self, client: TopicClient) -> None:
        """Find out what the brokers say about a topic.

        Raises:
            KafkaProblem: It was deleted and recreated, which producers may not notice, or it
                cannot be written.
        """
        topic = client.topic
        found = client.describe(topic.create)
        if self._known.setdefault(topic.name, found).id != found.id:
            msg = f"{topic} was deleted and recreated; it is opened again"
            raise KafkaProblem(msg)
        self._known[topic.name] = found
