"""Clients of librdkafka for topics."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import importlib.util
import logging
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import structlog

from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.problems import UNKNOWN_TOPIC, KafkaProblem, UnknownTopic, in_words
from wallaroo.connectors.kafka.settings import settings_of
from wallaroo.connectors.kafka.tokens import OAUTH, SASL, Tokens, check_oauth
from wallaroo.connectors.kafka.topic import Topic, TopicSettings
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

REQUEST_S = 10.0
"""Seconds after which a request that the brokers do not answer has failed."""
LONGEST_PAUSE_S = 3.0
"""Longest pause before reading or writing is tried again, so that neither waits when brokers are
back; clients connect again about as often."""
_END_S = 1.0
"""Seconds to wait for the end offsets of partitions."""
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
_LIST_S = 3.0
"""Seconds to wait for the names of topics, in which nothing can stop it."""
_UNANSWERED = {"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_STATE"}

log = structlog.get_logger("wallaroo.gateway")

Asked: TypeAlias = concurrent.futures.Future[Any]
"""A question to the brokers."""


def end_in(asked: Asked, wait_s: float = 0.0) -> int | None:
    """The end offset that was *asked* for; None if no broker has answered."""
    from confluent_kafka import KafkaException

    with contextlib.suppress(KafkaException, concurrent.futures.TimeoutError):
        end: int = asked.result(wait_s).offset
        return end if end >= 0 else None  # negative after the timeout
    return None


class FoundTopic(NamedTuple):
    """A topic as the brokers have it."""

    id: str
    """No other topic of the same name has it."""
    partitions: list[int]


class TopicClient:
    """Makes clients for a topic or several, and puts what they report into words.

    Args:
        topic: The topic, or the topics.
        stopping: Set when requests are to be given up.
        access: What it is used for: READ or WRITE.
        group: Name of its group, and of its transactional id.

    Raises:
        RuntimeFailure: The extra is not installed, or the settings cannot be used.
    """

    def __init__(
        self, topic: Topic, stopping: threading.Event, access: str = "READ", group: str = ""
    ) -> None:
        if importlib.util.find_spec("confluent_kafka") is None:
            msg = f"{topic} requires confluent-kafka: install it with `pip install wallaroo[kafka]`"
            raise RuntimeFailure(msg)
        self.topic = topic
        self.settings = settings_of(topic)
        self._stopping, self._access, self._group = stopping, access, group
        self.last_error: KafkaError | None = None
        """Why no broker answers, as a client has reported; None after one has answered."""
        self._hint: KafkaError | None = None
        """The last error of a connection."""
        self._made_admin: Any = None
        self._tokens = None if topic.oauth is None else Tokens(topic.oauth)
        check_oauth(topic, self.settings)
        self.errors = 0
        """Errors that were reported since the gateway started."""

    def of_topic(self, name: str) -> TopicClient:
        """One for another topic of the brokers, which asks over the connections of this one."""
        other = copy.copy(self)
        other.topic = self.topic.one(name)
        return other

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

        # the application's function for tokens may wait for others
        own = {} if self.topic.oauth is None else {"oauth_cb": lambda _: ("none", time.time() + 60)}
        try:
            self.consumer("wallaroo", **own).close()
            self.producer(**own)
        except KafkaException as error:
            reason = self.settings.completed(error.args[0].str(), self.topic.settings)
            msg = f"{self.topic}: {reason}; correct it in {self.settings.origin}"
            raise RuntimeFailure(msg) from None

    def names(self) -> Collection[str]:
        """The names of all topics that the user may see.

        Raises:
            KafkaProblem: No broker answers.
        """
        from confluent_kafka import KafkaException

        try:
            found: Collection[str] = self._admin.list_topics(timeout=_LIST_S).topics
        except KafkaException as error:
            raise self.problem(error.args[0]) from None
        return found

    def ask(self, names: Collection[str] = ()) -> dict[str, Asked]:
        """Ask the brokers for topics, without waiting for the answers, as `answered` does.

        Args:
            names: Names of the topics; none for its own.
        """
        from confluent_kafka import TopicCollection

        asked: dict[str, Asked] = self._admin.describe_topics(
            TopicCollection([*(names or self.topic.names)]),
            include_authorized_operations=self._access == "WRITE",
            request_timeout=REQUEST_S,
        )
        return asked

    def answered(self, name: str, asked: Asked, create: TopicSettings | None = None) -> FoundTopic:
        """A topic as the brokers have it.

        Args:
            name: Name of the topic.
            asked: What `ask` has returned for it.
            create: How it is created if there is none.

        Raises:
            UnknownTopic: The topic does not exist.
            KafkaProblem: It may not be written, or no broker answers.
        """
        from confluent_kafka import KafkaError
        from confluent_kafka.admin import AclOperation

        self.last_error = None
        try:
            found = self.answer(asked, name)
        except UnknownTopic:
            if create is None:
                raise
            self._create(name, create)
            return self.answered(name, self.ask([name])[name], create)
        self.well()
        operations = found.authorized_operations
        if operations and self._access == "WRITE" and AclOperation.WRITE not in operations:
            raise self.problem(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), topic=name)
        partitions = sorted(partition.id for partition in found.partitions)
        return FoundTopic(str(found.topic_id), partitions)

    def answer(self, asked: Asked, topic: str) -> Any:
        """The answer to a question about a topic.

        Raises:
            KafkaProblem: The question failed, or no broker answers.
        """
        from confluent_kafka import KafkaException

        while True:
            try:
                return asked.result(_LOOK_S)
            except concurrent.futures.TimeoutError:
                self.give_up()
                self._admin.poll(0)
                if self.last_error is not None:
                    raise self.problem(self.last_error) from None
            except KafkaException as error:
                raise self.problem(error.args[0], topic=topic) from None

    def _create(self, name: str, wanted: TopicSettings) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        counts = wanted.partitions or -1, wanted.replication or -1
        topic = NewTopic(name, *counts, config=wanted.texts)
        made = self._admin.create_topics([topic], request_timeout=REQUEST_S)
        try:
            made[name].result(2 * REQUEST_S)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise self.problem(error.args[0], "CREATE", name) from None
            self._stopping.wait(_LOOK_S)  # until all brokers know it
            self.give_up()
        else:
            log.info("topic created", topic=name, brokers=self.topic.brokers)

    def describe(self, create: TopicSettings | None = None) -> FoundTopic:
        """Ask for its only topic, and wait for the answer; see `answered`."""
        return self.answered(self.topic.name, self.ask()[self.topic.name], create)

    def ask_ends(
        self,
        partitions: Iterable[Partition],
        *,
        committed: bool = True,
        first: bool = False,
        wait_s: float = _END_S,
    ) -> dict[Partition, Asked]:
        """Ask for the end offsets of *partitions*, as `end_in` reads them.

        Args:
            partitions: The partitions.
            committed: Whether records of open transactions do not count, as for consumers.
            first: Whether to ask for their first offsets instead.
            wait_s: Seconds after which the question has failed.
        """
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if first else OffsetSpec.latest()
        if not (wanted := {TopicPartition(*at): spec for at in partitions}):
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=wait_s)
        return {Partition(at.topic, at.partition): answer for at, answer in asked.items()}

    def ends(
        self, partitions: Iterable[Partition], *, committed: bool = True
    ) -> dict[Partition, int | None]:
        """Ask, and wait for the answers; None where no broker answers in time. See `ask_ends`."""
        asked = self.ask_ends(partitions, committed=committed)
        found = {at: end_in(answer, 2 * _END_S) for at, answer in asked.items()}
        if silent := {at.topic for at, end in found.items() if end is None}:
            self.ask(silent)  # for the next time: another broker may lead them now
        return found

    def commit(self, offsets: Mapping[Partition, int]) -> Asked:
        """Commit *offsets* to the group, without waiting for the answer."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        at = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        changed = [ConsumerGroupTopicPartitions(self._group, at)]
        asked = self._admin.alter_consumer_group_offsets(changed, request_timeout=REQUEST_S)
        return asked[self._group]

    def give_up(self) -> None:
        """Raise if the connector is to stop.

        Raises:
            KafkaProblem: It is.
        """
        if self._stopping.is_set():
            msg = "stopped"
            raise KafkaProblem(msg)

    def problem(
        self, error: KafkaError, access: str | None = None, topic: str | None = None
    ) -> KafkaProblem:
        """What *error* means; what clients reported explains a request that was not answered.

        Args:
            error: The error.
            access: The operation on the topic that failed, if it is not the usual one.
            topic: Name of the topic that it is about, if there are several.
        """
        explanation = self._hint or self.last_error
        if explanation is not None and error.name() in _UNANSWERED:
            error = explanation
        access, about = access or self._access, self.topic.one(topic) if topic else self.topic
        kind = UnknownTopic if error.name() in UNKNOWN_TOPIC else KafkaProblem
        return kind(in_words(error, about, self.settings, access, self._group))

    def reason(self, error: BaseException) -> str:
        """What *error*, which reading or writing has raised, means."""
        from confluent_kafka import KafkaException

        no_token = None if self._tokens is None else self._tokens.problem
        if no_token is not None:  # clients wait for the first one, and then raise anything
            return f"{self.topic}: there is no token: the function for oauth= {no_token}"
        if isinstance(error, SystemError) and error.__cause__ is not None:
            error = error.__cause__  # a fatal error, which the client raises around a callback
        if isinstance(error, KafkaException):
            error = self.problem(error.args[0])
        if isinstance(error, (KafkaProblem, RuntimeFailure)):
            return str(error)
        return f"{type(error).__name__}: {error}"

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

    @property
    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        # no `cached_property`: before Python 3.12, its lock would be that of all topics
        if self._made_admin is None:
            # no cycle of references: the garbage collector may run in a thread of the client that
            # it frees, which aborts the process
            noted = weakref.WeakMethod(self.on_error)
            own = {"error_cb": lambda error: (note := noted()) and note(error)}
            self._made_admin = AdminClient(self._options({}, own))
        return self._made_admin

    def _options(self, defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        if self._tokens is not None:
            own = {"oauth_cb": self._tokens, **own}
            if "sasl.mechanisms" not in self.settings.options:
                defaults = {"sasl.mechanism": OAUTH, **defaults}
            defaults = {"security.protocol": SASL, **defaults}
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
