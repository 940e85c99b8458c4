"""The consumer group that keeps the number of a sink's next output, with its transactions."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.kafka.client import REQUEST_S, Asked, TopicClient, end_in
from wallaroo.connectors.kafka.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka import Producer

_PARTITION = 0
"""Partition under which the group keeps the number."""
_END_S = 1.0
"""Seconds between questions for the end of that partition, at which tools that show the lag of
groups expect the group's offset."""


class SinkGroup:
    """The group of one sink; see `sink_note` for what it keeps.

    Args:
        client: The client of the sink's own topic.
        name: Name of the group.
    """

    def __init__(self, client: TopicClient, name: str) -> None:
        self._client, self._name = client, name
        self._topic = client.topic.name
        self._metadata: Any = None
        self.offset = -1
        """The group's offset; negative if it has none."""
        self._asked_end: Asked | None = None
        self._asked_at = 0.0

    def read(self) -> str:
        """Read the offset, and the note, which is returned; empty if there is none.

        Raises:
            KafkaProblem: The brokers do not tell.
        """
        from confluent_kafka import KafkaException, TopicPartition

        with contextlib.closing(self._client.consumer(self._name)) as consumer:
            try:
                (found,) = consumer.committed([TopicPartition(self._topic, _PARTITION)], REQUEST_S)
            except KafkaException as error:  # it was not answered; the consumer tells why
                event = consumer.poll(0)
                why = None if event is None else event.error()
                raise self._client.problem(why or error.args[0]) from error
            if found.error is not None:
                raise self._client.problem(found.error)
            self._metadata = consumer.consumer_group_metadata()
        self.offset = found.offset
        return found.metadata or ""

    def send(self, producer: Producer, offset: int, note: str, wait_s: float) -> None:
        """Let the transaction of *producer* commit *offset* and *note*.

        Raises:
            KafkaException: The brokers do not take them.
        """
        from confluent_kafka import TopicPartition

        at = TopicPartition(self._topic, _PARTITION, offset, note)
        producer.send_offsets_to_transaction([at], self._metadata, wait_s)

    def end(self) -> int:
        """The end of the partition, as last answered."""
        found = None if self._asked_end is None else end_in(self._asked_end)
        if time.monotonic() - self._asked_at >= _END_S:
            at = Partition(self._topic, _PARTITION)
            self._asked_end = self._client.ask_ends([at], committed=False)[at]
            self._asked_at = time.monotonic()
        return max(self.offset, 0) if found is None else found
