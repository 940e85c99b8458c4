"""Clients of librdkafka for one topic."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import logging
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from wallaroo.connectors.kafka.problems import KafkaProblem, in_words
from wallaroo.connectors.kafka.settings import settings_of
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

REQUEST_S = 10.0
"""Seconds after which a request that the brokers do not answer has failed."""
_LOOK_S = 0.1
"""Seconds between looks whether a request has failed or is to be given up."""
_DEFAULTS = {
    "client.id": "wallaroo",
    "topic.metadata.refresh.interval.ms": 30_000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2_000,
}
_AHEAD = {
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 5,  # the default, a second, lets a fast reader wait most of the time
}
"""How far a consumer reads ahead."""
_DECISIVE = {"_ALL_BROKERS_DOWN", "_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"}
"""Errors after which no broker answers; of others, librdkafka asks another one."""
_UNANSWERED = {"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_STATE"}


Asked: TypeAlias = concurrent.futures.Future[Any]
"""A question to the brokers."""


class TopicClient:
    """Makes clients for a topic, and puts what they report into words.

    Args:
        topic: The topic.
        stopping: Set when requests are to be given up.

    Raises:
        RuntimeFailure: The extra is not installed, or the settings cannot be used.
    """

    def __init__(self, topic: Topic, stopping: threading.Event) -> None:
        if importlib.util.find_spec("confluent_kafka") is None:
            msg = f"{topic} requires confluent-kafka: install it with `pip install wallaroo[kafka]`"
            raise RuntimeFailure(msg)
        self.topic = topic
        self.settings = settings_of(topic)
        self._stopping = stopping
        self._admin: Any = None
        self.last_error: KafkaError | None = None
        """Why no broker answers, as a client has reported; None after one has answered."""
        self._hint: KafkaError | None = None
        """The last error of a connection."""
        self.errors = 0
        """Errors that were reported since the gateway started."""

    def consumer(self, group: str, **own: Any) -> Consumer:
        """A consumer that commits nothing by itself and sees committed records only."""
        from confluent_kafka import Consumer

        return Consumer(
            self._options(
                _AHEAD,
                {
                    "group.id": group,
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "enable.partition.eof": True,
                    "allow.auto.create.topics": False,
                    "max.poll.interval.ms": 86_400_000,  # a full journal may pause it for long
                    **own,
                },
            )
        )

    def producer(self, **own: Any) -> Producer:
        """A producer that writes each record once, and reports only what it could not write."""
        from confluent_kafka import Producer

        return Producer(
            self._options(
                {
                    "partitioner": "murmur2_random",  # Java's, so keys lie where its clients look
                    "queue.buffering.max.messages": 1_000_000,  # more than a transaction takes
                },
                {"enable.idempotence": True, "delivery.report.only.error": True, **own},
            )
        )

    def check(self) -> None:
        """Refuse settings that librdkafka does not know.

        Raises:
            RuntimeFailure: It does not accept one; the message names it, and no secret.
        """
        from confluent_kafka import KafkaException

        try:
            self.consumer("wallaroo").close()
            self.producer()
        except KafkaException as error:
            reason = self.settings.completed(error.args[0].str(), self.topic.settings)
            msg = f"{self.topic}: {reason}; correct it in {self.settings.origin}"
            raise RuntimeFailure(msg) from None

    def ask(self) -> Asked:
        """Ask the brokers for the topic, without waiting for the answer, as `answered` does."""
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient(self._options({}, {}))
        topics = TopicCollection([self.topic.name])
        asked = self._admin.describe_topics(topics, request_timeout=REQUEST_S)
        return asked[self.topic.name]

    def answered(self, asked: Asked) -> tuple[str, list[int]]:
        """The topic's ID, which no other topic of the same name has, and its partitions.

        Args:
            asked: What `ask` has returned.

        Raises:
            KafkaProblem: There is no such topic, or no broker answers.
        """
        from confluent_kafka import KafkaException

        self.last_error = None
        while True:
            try:
                found = asked.result(_LOOK_S)
                break
            except concurrent.futures.TimeoutError:
                self.give_up()
                self._admin.poll(0)
                if self.last_error is not None:
                    raise self.problem(self.last_error) from None
            except KafkaException as error:
                raise self.problem(error.args[0]) from None
        self.well()
        return str(found.topic_id), sorted(partition.id for partition in found.partitions)

    def describe(self) -> tuple[str, list[int]]:
        """Ask, and wait for the answer; see `answered`."""
        return self.answered(self.ask())

    def give_up(self) -> None:
        """Raise if the connector is to stop.

        Raises:
            KafkaProblem: It is.
        """
        if self._stopping.is_set():
            msg = "stopped"
            raise KafkaProblem(msg)

    def problem(self, error: KafkaError) -> KafkaProblem:
        """What *error* means; what clients reported explains a request that was not answered."""
        explanation = self._hint or self.last_error
        if explanation is not None and error.name() in _UNANSWERED:
            error = explanation
        return KafkaProblem(in_words(error, self.topic, self.settings))

    def reason(self, error: BaseException) -> str:
        """What *error*, which reading or writing has raised, means."""
        from confluent_kafka import KafkaException

        if isinstance(error, KafkaException):
            error = self.problem(error.args[0])
        return (
            str(error)
            if isinstance(error, (KafkaProblem, RuntimeFailure))
            else f"{type(error).__name__}: {error}"
        )

    def on_error(self, error: KafkaError) -> None:
        """Note what a client reports; librdkafka itself connects again."""
        self.errors += 1
        if error.name() in _DECISIVE:
            self.last_error = error
        if error.name() != "_ALL_BROKERS_DOWN":
            self._hint = error

    def well(self) -> None:
        """Note that brokers answer."""
        self.last_error = self._hint = None

    def _options(self, defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        return {
            **_DEFAULTS,
            **defaults,
            **self.settings.options,
            "bootstrap.servers": self.topic.brokers,
            "error_cb": self.on_error,
            "logger": _QUIET,
            **own,
        }


_QUIET = logging.Logger("librdkafka")
"""Takes librdkafka's own log, which says the same as `error_cb` in other words and more often."""
_QUIET.addHandler(logging.NullHandler())
