"""Topics as sinks: published outputs in transactions that also hold the next output's number.

The number is noted with an offset of a consumer group that is named after the outbox and the sink:
a transaction commits it together with the records, or neither. At a start, `init_transactions`
fences a producer of the same name that is still alive and ends its transaction; then the number
says which outputs are in the topic already. Outputs that the topic does not take are noted with it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from wallaroo.connectors.kafka.client import LONGEST_PAUSE_S, REQUEST_S, TopicClient
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.records import VALUE_ALONE, KafkaRecord, arguments_of, unpacked
from wallaroo.connectors.kafka.resolve import KafkaSink
from wallaroo.connectors.kafka.sink_group import SinkGroup
from wallaroo.connectors.kafka.sink_note import RefusedRecord, found_in, noted
from wallaroo.connectors.kafka.sink_refusals import SinkRefusals
from wallaroo.connectors.kafka.sink_topics import SinkTopics
from wallaroo.connectors.kafka.stored import whole
from wallaroo.connectors.kafka.stuck_calls import StuckCall, returned
from wallaroo.connectors.threads import SinkThread, numbered
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.system.failpoints import fault
from wallaroo.user_code.exceptions import short_repr

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_TRANSACTION_BYTES = 4 * 1024**2
"""Bytes of outputs over which a transaction takes no more."""
_LEAST_BYTES = 16 * 1024
"""The same after failures: a transaction that takes too long, which brokers end, is halved."""
_TURN_S = 1.0
"""Longest wait for the brokers, before looking whether to stop."""
_ALL = 1 << 62
"""More outputs than there will ever be."""

log = structlog.get_logger("wallaroo.gateway")


class KafkaSinkWriter(SinkThread[KafkaSink]):
    """Writes one sink's outputs in a separate thread.

    Raises:
        RuntimeFailure: The extra is not installed, or settings cannot be used.
    """

    LONGEST_PAUSE_S = LONGEST_PAUSE_S
    WAITS = "it waits for the brokers"

    def __init__(self, context: ConnectorContext, index: int, sink: KafkaSink) -> None:
        super().__init__(context, index, sink)
        unique = f"{self._outbox.identity}-{sink.name}"
        self._numbering = f"{sink.prefix}-{context.application}-{unique}"
        """Name of the producer and of the group that keeps the number."""
        self._client = TopicClient(sink.topic, self._stopping, "WRITE", self._numbering)
        self._client.check()
        self._topics = SinkTopics(self._client)
        self._refusals = SinkRefusals(sink, self._topics)
        self._reached = self._outbox.delivered_to(index)
        """Number of the next output to write, from 0 on."""
        self._most_bytes = _TRANSACTION_BYTES
        """Bytes of outputs over which the next transaction takes no more."""
        self._most_outputs = _ALL
        """Outputs that the next transaction takes at most: few after one that was not accepted, so
        that those before it are written."""
        self._gathered_bytes = 0
        """Bytes of the outputs that were gathered last."""
        self._group = SinkGroup(self._client, self._numbering)
        self._in_transaction = self._stuck = False
        self._last = self._size = 0
        """Number of the output that was written last, from 0 on, and its bytes."""
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
                    self._follow_end(producer)
                    continue
                self._gathered_bytes = sum(len(one.outputs.data) for one in deliveries)
                if self._sink.transactions:
                    self._reached = self._write_in_transaction(producer, deliveries)
                else:
                    reached = self._produce(producer, deliveries)
                    self._flush(producer)
                    self._reached = reached
                if self._reached >= (end := deliveries[-1].last):
                    self._settle(deliveries[-1].position, self._letters(deliveries))
                    self._refusals.forget(end)
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

        self._topics.open()
        self._refusals.begin()
        self._in_transaction = self._stuck = False
        own: dict[str, Any] = {"on_delivery": self._on_delivery}
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
        number, codes = found_in(self._group.read())
        delivered = self._outbox.delivered_to(self._index)
        self._reached = delivered
        if self._group.offset >= 0:
            what = f"{self._sink.topic}, by the number that its brokers keep,"
            self._reached = self._not_below_delivered(number, what, skips=self._sink.skips_lost)
        elif delivered:
            log.warning(
                "sink has no number",
                **self._names(),
                reason=f"the brokers keep no number of the sink, and {delivered:,} outputs were "
                "delivered: it has expired, or the topic or prefix has changed",
                effect=f"the sink continues with output {delivered + 1:,}",
            )
        for refused, code in codes.items():
            if refused >= delivered:
                self._refusals.aside.setdefault(refused, RefusedRecord(code))

    def _write_in_transaction(self, producer: Producer, deliveries: Sequence[Delivery]) -> int:
        """Write outputs with the number after the last, which is returned."""
        producer.begin_transaction()
        self._in_transaction = True
        fault("kafka-sink-after-begin")
        number = self._produce(producer, deliveries)
        self._flush(producer)
        fault("kafka-sink-after-flush")
        self._commit(producer, number)
        self._transactions += 1
        return number

    def _commit(self, producer: Producer, number: int) -> None:
        """Commit the open transaction with the *number* of the next output."""
        from confluent_kafka import KafkaException

        group, end = self._group, self._group.end()
        aside = self._refusals.aside.items()
        codes = {refused: why.code for refused, why in aside if refused < number}
        note = noted(number, codes)
        try:
            self._until_answered(producer, lambda wait_s: group.send(producer, end, note, wait_s))
        except KafkaException as error:  # records are there, but their topic may not be read
            access = "READ" if self._refusals.error is None else "WRITE"
            client = self._topics.client(self._refusals.topic)
            raise client.problem(error.args[0], access) from error
        fault("kafka-sink-before-commit")
        self._until_answered(producer, producer.commit_transaction)
        self._in_transaction = False
        fault("kafka-sink-after-commit")
        group.offset = end

    def _follow_end(self, producer: Producer) -> None:
        """Move the group's offset to the end of the partition, while there are no outputs."""
        if 0 <= self._group.offset != self._group.end():
            producer.begin_transaction()
            self._in_transaction = True
            self._commit(producer, self._reached)

    def _produce(self, producer: Producer, deliveries: Sequence[Delivery]) -> int:
        """Hand records to the client, except those that the topic has, or does not take.

        Returns:
            The number of the output after the last: of one that the client does not take, unless it
            is the first.
        """
        from confluent_kafka import KafkaException

        own, produce, nothing = self._sink.topic.name, producer.produce, dict[str, Any]()
        reached, left, refusals = self._reached, self._most_outputs, self._refusals
        aside = refusals.aside
        self._topics.begin()
        topic: str | None
        value: bytes | None
        key: bytes | None
        for delivery in deliveries:
            data, ends = delivery.outputs.data, list(itertools.accumulate(delivery.outputs.sizes))
            begin = delivery.number - 1
            skipped = min(max(0, self._reached - begin), len(ends))
            start = ends[skipped - 1] if skipped else 0
            for number, end in enumerate(ends[skipped : skipped + left], begin + skipped):
                if data[start] == VALUE_ALONE:
                    topic, value, key, options = own, data[start + 1 : end], None, nothing
                else:
                    topic, value, key, options = arguments_of(data[start:end])
                    topic = topic or own
                self._last, self._size = number, end - start
                while number not in aside:
                    try:
                        # no call for most outputs, of which each takes less than a microsecond
                        is_anywhere = topic is own and "partition" not in options
                        if is_anywhere or refusals.has_place(
                            number, topic, options.get("partition")
                        ):
                            produce(topic, value, key, **options)
                            self._bytes += end - start
                        break
                    except BufferError:
                        self._check(producer, _TURN_S)
                    except KafkaProblem:
                        if number == self._reached:
                            raise
                        return number
                    except KafkaException as error:
                        if refusals.takes(number, end - start, error.args[0], topic):
                            break
                        if number == self._reached:
                            refusals.note(error.args[0], topic)
                            raise refusals.problem() from error
                        return number
                start, reached = end, number + 1
            left -= min(left, len(ends) - skipped)
        return reached

    def _letters(self, deliveries: Sequence[Delivery]) -> list[RefusedOutput]:
        """The dead letters of what was refused of *deliveries*."""
        if not (aside := self._refusals.aside):
            return []
        outputs = numbered(deliveries)
        return [
            self._letter(number, unpacked(outputs[number]), why)
            for number, why in sorted(aside.items())
            if number in outputs
        ]

    def _letter(self, number: int, record: KafkaRecord, why: RefusedRecord) -> RefusedOutput:
        from confluent_kafka import KafkaError

        topic = record.topic or self._sink.topic.name
        client = self._topics.client(topic)
        reason = why.reason or str(client.problem(KafkaError(why.code)))
        letter = self._set_aside(number + 1, record.value or b"", reason).letter
        key = None if record.key is None else short_repr(record.key)
        return RefusedOutput(letter._replace(key=key), whole(replace(record, topic=topic)))

    def _flush(self, producer: Producer) -> None:
        """Wait until the brokers have all records.

        Raises:
            KafkaProblem: They refuse one, a topic is another one, or the sink is to stop.
        """
        while producer.flush(_TURN_S):
            self._check(producer)
            # librdkafka waits long for a deleted topic, and may never find the leaders of a new one
            self._topics.check()
        self._check(producer)

    def _check(self, producer: Producer, wait_s: float = 0.0) -> None:
        """Take what the client reports.

        Raises:
            KafkaProblem: A record was refused, no broker answers, or the sink is to stop.
        """
        producer.poll(wait_s)
        if self._refusals.is_decisive:
            raise self._refusals.problem()
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
        """Call *call* with a time limit; the client is replaced if it does not return."""
        try:
            returned(lambda: call(_TURN_S), f"sink-{self._index}-call")
        except StuckCall:
            self._stuck = True
            msg = f"the client for {self._sink.topic} does not return; it is replaced"
            raise KafkaProblem(msg) from None

    @property
    def _progress(self) -> object:
        return self._reached + self._refusals.count

    def _on_delivery(self, error: KafkaError | None, record: Message[Any, Any]) -> None:
        if error is not None:
            self._refusals.note(error, record.topic() or self._sink.topic.name)

    def _reason(self, error: BaseException) -> str | None:
        return None if self._stopping.is_set() else self._client.reason(error)

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        self._client.errors += 1
        self._most_bytes = max(self._gathered_bytes // 2, _LEAST_BYTES)
        refusals = self._refusals
        if refusals.error is not None and refusals.is_of_one:
            alone, self._most_outputs = self._most_outputs == 1, 1
            if alone and refusals.takes(self._last, self._size, refusals.error, refusals.topic):
                return
            if alone:
                reason = f"output {self._last + 1:,} ({self._size:,} bytes): {reason}"
        super()._failed(reason, next_try_s)


open_sink = KafkaSinkWriter
