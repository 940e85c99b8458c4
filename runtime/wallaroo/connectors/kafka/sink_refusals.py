"""Outputs that topics refuse: which of them become dead letters, and what the others stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.resolve import KafkaSink
from wallaroo.connectors.kafka.sink_note import RefusedRecord
from wallaroo.connectors.kafka.sink_topics import SinkTopics

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_OF_ONE_RECORD = frozenset(
    {
        *("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG_SIZE"),
        *("INVALID_TIMESTAMP", "INVALID_RECORD"),
    }
)
"""Errors that one record causes, and that are reported for all records sent with it."""
_OF_DESTINATION = frozenset({"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""Errors of an output for a topic or partition that does not exist."""
_OF_TRANSACTION = frozenset({"_PURGE_QUEUE", "_PURGE_INFLIGHT"})
"""Errors of a record whose transaction failed: its next call tells why."""


class SinkRefusals:
    """What the topics of a sink refuse.

    Args:
        sink: The sink.
        topics: The topics.

    Attributes:
        aside: Outputs that are to become dead letters, by their numbers, from 0 on.
        count: Outputs that were refused since the gateway started.
        error: Why a record could not be written; None if none is known.
        topic: The topic to which it could not be written.
    """

    def __init__(self, sink: KafkaSink, topics: SinkTopics) -> None:
        self._sink, self._topics = sink, topics
        self.aside: dict[int, RefusedRecord] = {}
        self.count = 0
        self.begin()

    def begin(self) -> None:
        """Note that there is a new producer, which has reported nothing."""
        self.error: KafkaError | None = None
        self.topic = self._sink.topic.name

    def note(self, error: KafkaError, topic: str) -> None:
        """Note that a record for *topic* could not be written, unless another could not before."""
        if self.error is None:
            self.error, self.topic = error, topic

    def problem(self) -> KafkaProblem:
        """What was noted, in words."""
        assert self.error is not None
        return self._topics.client(self.topic).problem(self.error)

    @property
    def is_decisive(self) -> bool:
        """Whether a record could not be written, and no later call tells more about it."""
        return self.error is not None and not (
            self._sink.transactions and self.error.name() in _OF_TRANSACTION
        )

    @property
    def is_of_one(self) -> bool:
        """Whether one output alone is the cause of what was noted."""
        return self.error is not None and self.error.name() in _OF_ONE_RECORD | _OF_DESTINATION

    def takes(self, number: int, size: int, error: KafkaError, topic: str) -> bool:
        """Whether output *number*, of *size* bytes for *topic*, is set aside because of *error*."""
        if not self._sink.sets_aside or error.name() not in _OF_ONE_RECORD:
            return False
        reason = f"{size:,} bytes: {self._topics.client(topic).problem(error)}"
        self._refuse(number, RefusedRecord(error.code(), reason))
        return True

    def has_place(self, number: int, topic: str, partition: int | None) -> bool:
        """Whether *topic* exists, and the partition of output *number*; if not, it is refused.

        Raises:
            KafkaException: They do not, and outputs are not set aside.
            KafkaProblem: The topic cannot be written now, or no broker says whether it exists.
        """
        from confluent_kafka import KafkaError, KafkaException

        if (why := self._topics.refusal(topic, partition)) is None:
            return True
        if not self._sink.sets_aside:
            raise KafkaException(KafkaError(why.code))
        self._refuse(number, why)
        return False

    def _refuse(self, number: int, why: RefusedRecord) -> None:
        self.aside[number] = why
        self.count += 1

    def forget(self, end: int) -> None:
        """Forget the outputs before number *end*, which are dead letters now."""
        self.aside = {at: why for at, why in self.aside.items() if at >= end}
