"""Topics as sources: records into the journal, with the positions in the same transaction.

Partitions are assigned here, not by a group: the journal knows how far each is read. What is on
disk is committed to a group as well, for tools that show the lag; nothing reads it from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from wallaroo.gateway.connectors.base import SourceConnector, SourceState
from wallaroo.gateway.connectors.kafka.client import REQUEST_S, TopicClient
from wallaroo.gateway.connectors.kafka.positions import Positions, lost_records
from wallaroo.gateway.connectors.kafka.problems import KafkaProblem
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.model.kafka import KafkaSource
from wallaroo.observability.logs import Repeats
from wallaroo.system.failpoints import fault
from wallaroo.wire.kafka_records import packed_fields

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_AHEAD_BYTES = 64 * 1024**2
"""Bytes of a source's messages in the journal at most."""
_AT_ONCE = 5_000
"""Records that are taken at once at most; they become one chunk."""
_WAIT_S = 0.2
"""Wait for records or for room, before looking whether to stop."""
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 30.0
"""Pause before reading is tried again: doubles from the first to the most."""
_COMMIT_S = 2.0
"""Seconds between commits to the group."""
_AGAIN_S = 2.0
"""Seconds between looks at a topic whose brokers were away."""
_SURE_S = 0.25
"""Seconds in which no topic is deleted, recreated and filled again up to where it was read."""
_STOP_S = 5.0
"""Time that a reader has, at a stop, to end."""
_LENGTH = struct.Struct(">I")

log = structlog.get_logger("wallaroo.gateway")


class KafkaSources(SourceConnector):
    """Reads all sources that are topics, each in a separate thread.

    Args:
        sources: The sources by their indices.
        journal: Takes the messages, and knows where to resume.

    Raises:
        RuntimeFailure: The extra is not installed, or settings cannot be used.
    """

    def __init__(self, sources: Mapping[int, KafkaSource], journal: Journal) -> None:
        self._readers = {
            index: KafkaReader(index, source, journal) for index, source in sources.items()
        }

    async def start(self) -> None:
        """See `SourceConnector.start`."""
        # else the garbage collector looks at all records that are taken at once, several times
        gc.set_threshold(max(gc.get_threshold()[0], 4 * _AT_ONCE), *gc.get_threshold()[1:])
        for reader in self._readers.values():
            reader.start()

    async def stop(self) -> None:
        """See `SourceConnector.stop`."""
        stopping = (asyncio.to_thread(reader.stop) for reader in self._readers.values())
        await asyncio.gather(*stopping)

    def status(self, index: int) -> SourceState:
        """See `SourceConnector.status`."""
        reader = self._readers[index]
        return SourceState(reader.where, False, reader.failures, reader.problem)

    def samples(self) -> list[Sample]:
        """See `Reporting.samples`."""
        return [sample for reader in self._readers.values() for sample in reader.samples()]


class KafkaReader:
    """Reads one topic.

    Args:
        index: Index of the source in the application.
        source: The source.
        journal: Takes the messages, and knows where to resume.

    Raises:
        RuntimeFailure: The extra is not installed, or the settings cannot be used.
    """

    def __init__(self, index: int, source: KafkaSource, journal: Journal) -> None:
        self._index, self._source, self._journal = index, source, journal
        self._stopping = threading.Event()
        self._client = TopicClient(source.topic, self._stopping)
        self._client.check()
        self._group = source.group or f"wallaroo-{source.name}"
        self._handing_in = threading.Lock()
        """Held while messages are handed in, which does not happen after a stop."""
        self._repeats = Repeats()
        self._positions: Positions | None = None
        """How far the journal was given records; None before the first look at the topic."""
        self._ends: dict[int, int] = {}
        """Where the partitions ended last, by partition."""
        self._bytes = 0
        self._looked = self._committed = self._sure = 0.0
        self._committed_offsets: Mapping[int, int] = {}
        self.where = source.where
        self.failures = 0
        """Times that reading has failed since it last went on."""
        self.problem: str | None = None
        """Why it failed last."""
        self._thread = threading.Thread(target=self._run, name=f"source-{index}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more records; the journal has been given all that were taken."""
        with self._handing_in:
            if self._stopping.is_set():
                return
            self._stopping.set()
        self._thread.join(_STOP_S)

    def samples(self) -> Iterator[Sample]:
        """Lag, bytes and errors since the gateway started."""
        name, positions = self._source.name, self._positions
        for partition, end in sorted(self._ends.items()):
            read = 0 if positions is None else positions.offsets.get(partition, 0)
            lag = max(0, end - read)
            yield Sample(catalogue.KAFKA_LAG, (name, str(partition)), lag)
        yield Sample(catalogue.KAFKA_SOURCE_BYTES, (name,), self._bytes)
        yield Sample(catalogue.KAFKA_SOURCE_ERRORS, (name,), self._client.errors)

    def _run(self) -> None:
        pause = _RETRY_FIRST_S
        while not self._stopping.is_set():
            before, reason = self._positions, ""
            try:
                self._read()
            except Exception as error:  # this thread continues, whatever it is
                reason = self._client.reason(error)
            if reason:
                pause = _RETRY_FIRST_S if before != self._positions else pause
                self._failed(reason, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, _RETRY_MOST_S)

    def _read(self) -> None:
        """Take records until stopped."""
        from confluent_kafka import TopicPartition

        topic_id, partitions = self._client.describe()
        self._looked = time.monotonic()
        consumer = self._client.consumer(self._group)
        with contextlib.closing(consumer):
            offsets = self._resume(consumer, topic_id, partitions)
            name = self._source.topic.name
            consumer.assign([TopicPartition(name, at, next_) for at, next_ in offsets.items()])
            self._well()
            while not self._stopping.is_set():
                self._look(consumer)
                self._commit(consumer)
                if not self._journal.wait_for_room(self._index, _AHEAD_BYTES, _WAIT_S):
                    continue  # librdkafka pauses when its own buffer is full
                if (first := consumer.poll(_WAIT_S)) is not None:
                    fetched = [first, *consumer.consume(_AT_ONCE, 0)]
                    self._make_sure()
                    self._take(fetched)
                elif self._client.last_error is not None:
                    reason = str(self._client.problem(self._client.last_error))
                    if reason != self.problem:
                        self._failed(reason)

    def _resume(
        self, consumer: Consumer, topic_id: str, partitions: Sequence[int]
    ) -> Mapping[int, int]:
        """The next offset of each partition, which the journal knows from now on.

        Raises:
            KafkaProblem: Records that were not read are gone, and the source is not to skip them.
        """
        positions = self._positions
        if positions is None and (stored := self._journal.reached(self._source.name)) is not None:
            positions = Positions.decoded(stored)
        if positions is None:
            offsets = self._first_offsets(consumer, partitions)
        else:
            gone = sorted(set(positions.offsets) - set(partitions))
            bounds = (
                {}
                if positions.topic_id != topic_id
                else self._bounds(consumer, [at for at in positions.offsets if at not in gone])
            )
            lost = lost_records(positions, topic_id, bounds)
            lost |= {at: f"partition {at} is gone" for at in gone if at not in lost}
            if lost:
                self._report(lost)
            offsets = positions.within(bounds)
            new = [at for at in partitions if at not in offsets]
            offsets |= {at: first for at, (first, _) in self._bounds(consumer, new).items()}
        self._hand_in(0, b"", Positions(topic_id, offsets))
        return offsets

    def _report(self, lost: Mapping[int, str]) -> None:
        reasons = "; ".join(dict.fromkeys(lost.values()))
        if not self._source.skips_lost:
            msg = f"{self.where}: {reasons}; to go on with what is left, set on_lost='skip'"
            raise KafkaProblem(msg)
        log.warning("records lost", **self._names(), reason=reasons, goes_on="with what is left")

    def _first_offsets(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int]:
        """Where the first start begins."""
        from confluent_kafka import TopicPartition

        start, bounds = self._source.start, self._bounds(consumer, partitions)
        if start == "earliest":
            return {at: first for at, (first, _) in bounds.items()}
        ends = {at: end for at, (_, end) in bounds.items()}
        if start == "latest":
            return ends
        name = self._source.topic.name
        wanted = [TopicPartition(name, at, int(start)) for at in partitions]
        found = consumer.offsets_for_times(wanted, REQUEST_S)
        return {at.partition: at.offset if at.offset >= 0 else ends[at.partition] for at in found}

    def _bounds(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """First offset and end of each of *partitions*."""
        from confluent_kafka import TopicPartition

        found = {}
        for partition in partitions:
            self._client.give_up()
            at = TopicPartition(self._source.topic.name, partition)
            bounds = consumer.get_watermark_offsets(at, REQUEST_S)
            if bounds is None:
                msg = f"{self.where}: no broker says what partition {partition} holds"
                raise KafkaProblem(msg)
            found[partition] = bounds
        return found

    def _look(self, consumer: Consumer) -> None:
        """Look for new partitions, from time to time, and whether brokers that were away answer."""
        from confluent_kafka import TopicPartition

        options = self._client.settings.options
        every = float(options.get("topic.metadata.refresh.interval.ms", 30_000)) / 1000
        due = min(every, _AGAIN_S) if self.problem is not None else every
        positions = self._positions
        if time.monotonic() - self._looked < due or positions is None:
            return
        partitions = self._same_topic(positions)
        self._looked = time.monotonic()
        if new := [at for at in partitions if at not in positions.offsets]:
            first = {at: low for at, (low, _) in self._bounds(consumer, new).items()}
            offsets = {**positions.offsets, **first}
            self._hand_in(0, b"", Positions(positions.topic_id, offsets))
            name = self._source.topic.name
            consumer.incremental_assign([TopicPartition(name, *at) for at in first.items()])
            log.info("source has new partitions", **self._names(), partitions=new)
        self._note_ends(consumer)
        self._well()

    def _make_sure(self) -> None:
        """Look whether what was fetched comes from the topic that was read before.

        librdkafka goes on with the next offset if a topic was recreated while it had no connection,
        or fetched nothing.

        Raises:
            KafkaProblem: It does not, or no broker answers.
        """
        if time.monotonic() - self._sure >= _SURE_S and self._positions is not None:
            self._same_topic(self._positions)
            self._sure = time.monotonic()

    def _same_topic(self, positions: Positions) -> list[int]:
        """The partitions of the topic.

        Raises:
            KafkaProblem: The topic was recreated, or no broker answers.
        """
        topic_id, partitions = self._client.describe()
        if topic_id != positions.topic_id:
            if not self._source.skips_lost:
                self._report(lost_records(positions, topic_id, {}))
            msg = f"{self.where} was deleted and recreated; it is opened again"
            raise KafkaProblem(msg)
        return partitions

    def _note_ends(self, consumer: Consumer) -> None:
        """Note where the partitions end, as fetched records have told."""
        from confluent_kafka import TopicPartition

        for partition in self._positions.offsets if self._positions else ():
            at = TopicPartition(self._source.topic.name, partition)
            bounds = consumer.get_watermark_offsets(at, cached=True)
            if bounds is not None and bounds[1] > self._ends.get(partition, -1):
                self._ends[partition] = bounds[1]

    def _commit(self, consumer: Consumer) -> None:
        """Commit what is on disk to the group, from time to time."""
        from confluent_kafka import TopicPartition

        if time.monotonic() - self._committed < _COMMIT_S:
            return
        self._committed = time.monotonic()
        self._note_ends(consumer)
        stored = self._journal.reached(self._source.name)
        offsets = {} if stored is None else Positions.decoded(stored).offsets
        if offsets and offsets != self._committed_offsets:
            self._committed_offsets = offsets
            name = self._source.topic.name
            at = [TopicPartition(name, partition, next_) for partition, next_ in offsets.items()]
            consumer.commit(offsets=at, asynchronous=True)

    def _take(self, messages: Sequence[Message[Any, Any]]) -> None:
        """Hand records in, once there is room, with the positions after them.

        All records at once in each step, as a loop over them takes longer than reading them.
        """
        assert self._positions is not None
        problem = None
        events = [message for message in messages if message.error() is not None]
        for event in events:
            error: Any = event.error()
            if error.name() != "_PARTITION_EOF":
                self._client.errors += 1
                problem = self._client.problem(error)
                messages = messages[: messages.index(event)]  # what came before it counts
                break
            self._ends[event.partition() or 0] = event.offset() or 0
        records = [at for at in messages if at.error() is None] if events else messages
        payloads = self._payloads(records)
        lengths, limit = list(map(len, payloads)), self._source.framing.max_frame
        if lengths and max(lengths) > limit:
            first = next(at for at, length in enumerate(lengths) if length > limit)
            record = records[first]
            problem = KafkaProblem(
                f"{self.where}: record {record.offset()} of partition {record.partition()} has "
                f"{lengths[first]} bytes; the limit is {limit}: raise --max-frame"
            )
            messages = messages[: messages.index(record)]
            payloads, lengths = payloads[:first], lengths[:first]
        last = {message.partition(): message for message in messages}
        offsets = dict(self._positions.offsets)
        for partition, message in last.items():
            offsets[partition or 0] = (message.offset() or 0) + (message.error() is None)
        if offsets != self._positions.offsets:
            data = _framed(payloads, lengths)
            self._bytes += len(data)
            self._hand_in(len(payloads), data, Positions(self._positions.topic_id, offsets))
            self._well()
        if problem is not None:
            raise problem

    def _payloads(self, records: Sequence[Message[Any, Any]]) -> Sequence[bytes]:
        """What the journal is to have of the records."""
        if self._source.envelope:
            return list(map(_enveloped, records))
        values: list[Any] = [record.value() for record in records]
        return [value or b"" for value in values] if None in values else values

    def _hand_in(self, count: int, data: bytes, positions: Positions) -> None:
        reached = Reached(self._source.name, positions.encoded())
        fault("kafka-source-before-submit")
        with self._handing_in:
            if self._stopping.is_set():
                return
            self._journal.submit(self._index, count, data, reached=reached)
            self._positions = positions
        fault("kafka-source-after-submit")

    def _well(self) -> None:
        """Note that reading goes on."""
        self._client.well()
        self.failures, self.problem = 0, None

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        self.failures += 1
        self.problem = reason
        if not self._stopping.is_set() and self._repeats.show(reason):
            log.warning("source failed", **self._names(), reason=reason, next_try_s=next_try_s)

    def _names(self) -> dict[str, str]:
        return {"source": self._source.name, "reads": self.where}


def _framed(payloads: Sequence[bytes], lengths: Sequence[int]) -> bytes:
    """The *payloads*, which have these *lengths*, as the journal has them."""
    if payloads and lengths.count(lengths[0]) == len(lengths):
        head = _LENGTH.pack(lengths[0])
        return head + head.join(payloads)
    parts = [b""] * (2 * len(payloads))
    parts[0::2], parts[1::2] = map(_LENGTH.pack, lengths), payloads
    return b"".join(parts)


def _enveloped(message: Message[Any, Any]) -> bytes:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    return packed_fields(
        message.value(),
        message.key(),
        headers,
        timestamp if kind else None,
        message.partition(),
        message.offset(),
    )
