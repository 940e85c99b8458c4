"""Topics as sinks: published outputs in transactions that also hold the next output's number.

The number is stored as an offset of a consumer group that is named after the outbox and the sink: a
transaction commits it together with the records, or neither. At a start, `init_transactions` fences
a producer of the same name that is still alive and ends its transaction; then the number says which
outputs are in the topic already. Outputs that the topic does not take are noted beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from wallaroo.connectors.kafka.client import REQUEST_S, TopicClient
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.records import VALUE_ALONE, KafkaRecord, arguments_of, unpacked
from wallaroo.connectors.kafka.refused_outputs import RefusedRecord, found_in, noted
from wallaroo.connectors.kafka.resolve import KafkaSink
from wallaroo.connectors.threads import SinkThread, numbered
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.system.failpoints import fault
from wallaroo.user_code.exceptions import short_repr

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

_TRANSACTION_BYTES = 4 * 1024**2
"""Bytes of outputs over which a transaction takes no more."""
_LEAST_BYTES = 16 * 1024
"""The same after failures: a transaction that takes too long, which brokers end, is halved."""
_TURN_S = 1.0
"""Longest wait for the brokers, before looking whether to stop."""
_STUCK_S = 15.0
"""Seconds after which a call that was given `_TURN_S` will not return."""
_OF_ONE_RECORD = frozenset(
    {
        *("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG_SIZE"),
        *("INVALID_TIMESTAMP", "INVALID_RECORD", "_UNKNOWN_PARTITION"),
    }
)
"""Errors that one record causes, and that are reported for all records sent with it."""
_ALL = 1 << 62
"""More outputs than there will ever be."""
_NUMBER_PARTITION = 0
"""Partition under which the group keeps the number."""

log = structlog.get_logger("wallaroo.gateway")


class KafkaSinkWriter(SinkThread[KafkaSink]):
    """Writes one sink's outputs in a separate thread.

    Raises:
        RuntimeFailure: The extra is not installed, or settings cannot be used.
    """

    WAITS = "it waits for the brokers"

    def __init__(self, context: ConnectorContext, index: int, sink: KafkaSink) -> None:
        super().__init__(context, index, sink)
        self._client = TopicClient(sink.topic, self._stopping)
        self._client.check()
        self._numbering = f"wallaroo-{self._outbox.identity}-{index}-{sink.name}"
        """Name of the producer and of the group that keeps the number."""
        self._reached = self._outbox.delivered_to(index)
        """Number of the next output to write, from 0 on."""
        self._most_bytes = _TRANSACTION_BYTES
        """Bytes of outputs over which the next transaction takes no more."""
        self._most_outputs = _ALL
        """Outputs that the next transaction takes at most: few after one that was not accepted, so
        that those before it are written."""
        self._gathered_bytes = 0
        """Bytes of the outputs that were gathered last."""
        self._group: Any = None
        self._topic_id = ""
        """ID of the topic that the current producer writes."""
        self._in_transaction = self._stuck = False
        self._last = self._size = 0
        """Number of the output that was written last, from 0 on, and its bytes."""
        self._refused: KafkaError | None = None
        """Why a record could not be written."""
        self._aside: dict[int, RefusedRecord] = {}
        """Outputs that are to become dead letters, by their numbers, from 0 on."""
        self._refusals = 0
        """Outputs that were refused since the gateway started."""
        self._partitions: list[int] = []
        """Partitions that the topic is known to have."""
        self._has_no_more = False
        """Whether these are all, as brokers have said since the transaction began."""
        self._bytes = self._transactions = 0
        self._thread.start()

    def samples(self) -> Iterator[Sample]:
        """Bytes, transactions and errors since the gateway started."""
        name = (self._sink.name,)
        yield Sample(catalogue.KAFKA_SINK_BYTES, name, self._bytes)
        yield Sample(catalogue.KAFKA_SINK_ERRORS, name, self._client.errors)
        yield Sample(catalogue.KAFKA_TRANSACTIONS, name, self._transactions)

    def _work(self) -> None:
        """Write outputs as they are published, until stopped."""
        with self._open() as producer:
            while not self._stopping.is_set():
                self._check(producer)
                if not (deliveries := self._gathered(self._most_bytes)):
                    self.problem = None
                    continue
                self._gathered_bytes = sum(len(one.outputs.data) for one in deliveries)
                if self._sink.transactions:
                    self._reached = self._write_in_transaction(producer, deliveries)
                else:
                    reached = self._produce(producer, deliveries)
                    self._flush(producer)
                    self._reached = reached
                if self._reached >= (end := _end(deliveries[-1])):
                    self._settle(deliveries[-1].position, self._letters(deliveries))
                    self._aside = {at: why for at, why in self._aside.items() if at >= end}
                self._most_bytes = min(self._most_bytes * 5 // 4, _TRANSACTION_BYTES)
                self._most_outputs = min(self._most_outputs * 2, _ALL)
                self._client.well()

    @contextlib.contextmanager
    def _open(self) -> Iterator[Producer]:
        """A producer; in transactions, it has fenced the one before, and the number is known.

        Raises:
            KafkaProblem: The topic cannot be written now.
        """
        from confluent_kafka import KafkaException

        self._topic_id, self._partitions = self._client.describe()
        self._refused, self._in_transaction, self._stuck = None, False, False
        own: dict[str, Any] = {"on_delivery": self._on_refused}
        if self._sink.transactions:
            own["transactional.id"] = self._numbering
        producer = self._client.producer(**own)
        try:
            if self._sink.transactions:
                self._until_answered(producer, producer.init_transactions)
                self._resume()
                log.info("sink resumes", **self._names(), output=self._reached)
            yield producer
        finally:
            if not self._stuck:
                producer.purge()
            if (
                self._in_transaction and not self._stuck
            ):  # else its readers wait until it has timed out
                with contextlib.suppress(KafkaException):
                    producer.abort_transaction(_TURN_S)

    def _resume(self) -> None:
        """Find out which outputs are in the topic already, and which it has refused."""
        from confluent_kafka import KafkaError, TopicPartition

        with contextlib.closing(self._client.consumer(self._numbering)) as consumer:
            at = TopicPartition(self._sink.topic.name, _NUMBER_PARTITION)
            (found,) = consumer.committed([at], REQUEST_S)
            self._group = consumer.consumer_group_metadata()
        delivered = self._outbox.delivered_to(self._index)
        self._reached = delivered
        if found.offset >= 0:
            what = f"{self._sink.topic}, by the number that its brokers keep,"
            self._reached = self._not_below_delivered(
                found.offset, what, skips=self._sink.skips_lost
            )
        elif delivered:
            log.warning(
                "sink has no number",
                **self._names(),
                reason=f"the brokers keep no number of the sink, and {delivered:,} outputs were "
                "delivered: it has expired, or the topic is another one",
                effect=f"the sink continues with output {delivered + 1:,}",
            )
        for number, code in found_in(found.metadata or "").items():
            if number >= delivered and number not in self._aside:
                reason = str(self._client.problem(KafkaError(code)))
                self._aside[number] = RefusedRecord(code, reason)

    def _write_in_transaction(self, producer: Producer, deliveries: Sequence[Delivery]) -> int:
        """Write outputs with the number after the last, which is returned."""
        from confluent_kafka import TopicPartition

        producer.begin_transaction()
        self._in_transaction = True
        fault("kafka-sink-after-begin")
        number = self._produce(producer, deliveries)
        self._flush(producer)
        fault("kafka-sink-after-flush")
        codes = {refused: why.code for refused, why in self._aside.items() if refused < number}
        at = TopicPartition(self._sink.topic.name, _NUMBER_PARTITION, number, noted(codes))
        send = producer.send_offsets_to_transaction
        self._until_answered(producer, lambda wait_s: send([at], self._group, wait_s))
        fault("kafka-sink-before-commit")
        self._until_answered(producer, producer.commit_transaction)
        self._in_transaction = False
        fault("kafka-sink-after-commit")
        self._transactions += 1
        return number

    def _produce(self, producer: Producer, deliveries: Sequence[Delivery]) -> int:
        """Hand records to the client, except those that the topic has, or does not take.

        Returns:
            The number of the output after the last: of one that the client does not take, unless it
            is the first.
        """
        from confluent_kafka import KafkaException

        topic, produce, nothing = self._sink.topic.name, producer.produce, dict[str, Any]()
        reached, left, aside = self._reached, self._most_outputs, self._aside
        self._has_no_more = False
        value: bytes | None
        key: bytes | None
        for delivery in deliveries:
            data, ends = delivery.outputs.data, _ends(delivery)
            begin = delivery.number - 1
            skipped = min(max(0, self._reached - begin), len(ends))
            start = ends[skipped - 1] if skipped else 0
            for number, end in enumerate(ends[skipped : skipped + left], begin + skipped):
                if data[start] == VALUE_ALONE:
                    value, key, options = data[start + 1 : end], None, nothing
                else:
                    value, key, options = arguments_of(data[start:end])
                self._last, self._size = number, end - start
                while number not in aside and self._has_partition(number, options):
                    try:
                        produce(topic, value, key, **options)
                        self._bytes += end - start
                        break
                    except BufferError:
                        self._check(producer, _TURN_S)
                    except KafkaException as error:
                        if self._is_refused(number, error.args[0]):
                            break
                        if number == self._reached:
                            self._on_refused(error.args[0], None)
                            raise
                        return number
                start, reached = end, number + 1
            left -= min(left, len(ends) - skipped)
        return reached

    def _has_partition(self, number: int, options: dict[str, Any]) -> bool:
        """Whether the topic has the partition of output *number*; if not, it is refused.

        Raises:
            KafkaProblem: No broker says which partitions there are.
        """
        from confluent_kafka import KafkaError

        wanted = options.get("partition")
        if wanted is None or wanted in self._partitions or not self._sink.sets_aside:
            return True
        if not self._has_no_more:
            _, self._partitions = self._client.describe()
            self._has_no_more = True
            return self._has_partition(number, options)
        reason = (
            f"partition {wanted} does not exist: {self._sink.topic} has {len(self._partitions)} "
            "partitions; add some, or let the encoder return another one"
        )
        self._refuse(number, RefusedRecord(KafkaError._UNKNOWN_PARTITION, reason))  # noqa: SLF001
        return False

    def _is_refused(self, number: int, error: KafkaError) -> bool:
        """Whether output *number*, which has caused *error*, becomes a dead letter."""
        name = error.name()
        if not self._sink.sets_aside or name not in _OF_ONE_RECORD or name == "_UNKNOWN_PARTITION":
            return False
        reason = f"{self._size:,} bytes: {self._client.problem(error)}"
        self._refuse(number, RefusedRecord(error.code(), reason))
        return True

    def _refuse(self, number: int, why: RefusedRecord) -> None:
        self._aside[number] = why
        self._refusals += 1

    def _letters(self, deliveries: Sequence[Delivery]) -> list[RefusedOutput]:
        """The dead letters of what was refused of *deliveries*."""
        if not self._aside:
            return []
        outputs = numbered(deliveries)
        return [
            self._letter(number, unpacked(outputs[number]), why.reason)
            for number, why in sorted(self._aside.items())
            if number in outputs
        ]

    def _letter(self, number: int, record: KafkaRecord, reason: str) -> RefusedOutput:
        letter, data = self._set_aside(number + 1, record.value or b"", reason)
        key = None if record.key is None else short_repr(record.key)
        return RefusedOutput(letter._replace(key=key), data)

    def _flush(self, producer: Producer) -> None:
        """Wait until the brokers have all records.

        Raises:
            KafkaProblem: They refuse one, the topic is another one, or the sink is to stop.
        """
        while producer.flush(_TURN_S):
            self._check(producer)
            topic_id, _ = self._client.describe()  # librdkafka waits long for a deleted topic
            if topic_id != self._topic_id:  # and may never find the leaders of one made anew
                msg = f"{self._sink.topic} was deleted and recreated; it is opened again"
                raise KafkaProblem(msg)
        self._check(producer)

    def _check(self, producer: Producer, wait_s: float = 0.0) -> None:
        """Take what the client reports.

        Raises:
            KafkaProblem: A record was refused, no broker answers, or the sink is to stop.
        """
        producer.poll(wait_s)
        if self._refused is not None:
            raise self._client.problem(self._refused)
        self._client.give_up()
        if self._client.last_error is not None:
            raise self._client.problem(self._client.last_error)

    def _until_answered(self, producer: Producer, call: Callable[[float], None]) -> None:
        """Call *call* with a time limit, again while it can be repeated.

        Raises:
            KafkaException: It cannot be repeated.
            KafkaProblem: It has not returned, or the sink is to stop.
        """
        from confluent_kafka import KafkaException

        give_up = time.monotonic() + 6 * REQUEST_S
        while True:
            try:
                self._called(call)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > give_up:
                    raise
                self._check(producer)
            else:
                return

    def _called(self, call: Callable[[float], None]) -> None:
        """Call *call* in a thread, as librdkafka may never return from it.

        It does so if the group's coordinator was restarted since the number was last sent: its
        cache still has the closed connection.
        """
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call(_TURN_S)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, name=f"sink-{self._index}-call", daemon=True)
        thread.start()
        thread.join(_STUCK_S)
        if thread.is_alive():
            self._stuck = True
            msg = f"the client for {self._sink.topic} does not return; it is replaced"
            raise KafkaProblem(msg)
        if raised:
            raise raised[0]

    @property
    def _progress(self) -> object:
        return self._reached + self._refusals

    def _on_refused(self, error: KafkaError | None, _record: object) -> None:
        self._refused = self._refused or error

    def _reason(self, error: BaseException) -> str | None:
        return None if self._stopping.is_set() else self._client.reason(error)

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        self._client.errors += 1
        self._most_bytes = max(self._gathered_bytes // 2, _LEAST_BYTES)
        if self._refused is not None and self._refused.name() in _OF_ONE_RECORD:
            alone, self._most_outputs = self._most_outputs == 1, 1
            if alone and self._is_refused(self._last, self._refused):
                return
            if alone:
                reason = f"output {self._last + 1:,} ({self._size:,} bytes): {reason}"
        super()._failed(reason, next_try_s)


open_sink = KafkaSinkWriter


def _ends(delivery: Delivery) -> list[int]:
    """Where each output of *delivery* ends in its data."""
    return list(itertools.accumulate(array("I", delivery.outputs.lengths)))


def _end(delivery: Delivery) -> int:
    """Number after the last output of *delivery*, from 0 on."""
    return delivery.number - 1 + len(delivery.outputs.lengths) // array("I").itemsize
