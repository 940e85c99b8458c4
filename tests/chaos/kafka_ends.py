"""What writes the messages of chaos tests to a topic, and reads their outputs from one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.chaos.ledger import Ledger
from tests.kafka.brokers import Brokers

_FATAL = "the producer of the tests"
_AT_ONCE, _WAIT_S = 1_000, 0.2
_QUIET_S = 5.0
"""Time without records after which a reader uses another client."""


class TopicSender:
    """Writes messages, those of a key in order and each once, however long it takes.

    Args:
        brokers: Have the topic.
        topic: The topic.
    """

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._topic = topic
        self.problem: str | None = None
        """Why nothing is written any more."""
        self._options = {
            "bootstrap.servers": brokers.address,
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            "error_cb": self._note,
            "on_delivery": self._delivered,
        }
        self._producer = Producer(self._options)

    def send(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Write *messages*, each with the key of its record."""
        for key, message in messages:
            while self.problem is None:
                try:
                    self._producer.produce(self._topic, message, key)
                    break
                except BufferError:
                    self._producer.poll(_WAIT_S)
                except KafkaException as error:
                    self._note(error.args[0])
        self._producer.poll(0)

    def renew(self) -> None:
        """Write what comes next with another client, while nothing is being written.

        librdkafka may never find the leaders of a topic that was recreated: it takes their epochs,
        which begin at 0 again, for old ones.
        """
        self._producer = Producer(self._options)

    def flush(self) -> None:
        """Wait until all is written."""
        while self.problem is None and self._producer.flush(_WAIT_S):
            pass

    def _delivered(self, error: KafkaError | None, _record: object) -> None:
        if error is not None:
            self.problem = f"{_FATAL}: {error.str()}"

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self.problem = f"{_FATAL}: {error.str()}"


class TopicReader:
    """Notes the committed records of a topic, as they come.

    A client that gets none for some time is replaced, because librdkafka may stop for good.

    Args:
        brokers: Have the topic.
        topic: The topic.
        ledger: Takes the records.
        on_problem: Called if reading has ended.
    """

    def __init__(
        self, brokers: Brokers, topic: str, ledger: Ledger, on_problem: Callable[[str], None]
    ) -> None:
        self._brokers, self._topic, self._ledger = brokers, topic, ledger
        self._on_problem = on_problem
        self._next: dict[int, int] = {}
        """Offset of the next record, by partition."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    reader = self._brokers.reader(self._topic, offsets=self._next)
                except KafkaException:  # no broker answers
                    continue
                with contextlib.closing(reader) as consumer:
                    self._read(consumer)
        except Exception as error:  # whatever it is, the run is over
            self._on_problem(f"the reader of {self._topic}: {error!r}")

    def _read(self, consumer: Consumer) -> None:
        """Note what *consumer* gets, as long as it gets something."""
        last = time.monotonic()
        while not self._closing.is_set() and time.monotonic() - last < _QUIET_S:
            found = [
                message
                for message in consumer.consume(_AT_ONCE, _WAIT_S)
                if message.error() is None
            ]
            if found:
                last = time.monotonic()
                self._ledger.note([message.value() or b"" for message in found])
                self._next |= {
                    message.partition() or 0: (message.offset() or 0) + 1 for message in found
                }
