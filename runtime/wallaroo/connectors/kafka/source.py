"""Topics as sources: records into the journal, with the positions in the same transaction.

Partitions are assigned here, not by a group: the journal knows how far each is read. What is on
disk is committed to a group as well, for tools that show the lag; nothing reads it from there.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from wallaroo.connectors.kafka.batches import end_of_batch, error_text, is_of_a_batch
from wallaroo.connectors.kafka.client import REQUEST_S, Asked, TopicClient
from wallaroo.connectors.kafka.fetch import fetch_of, times_of_records
from wallaroo.connectors.kafka.partition_order import Lanes
from wallaroo.connectors.kafka.positions import Positions, lost_records
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.threads import SourceThread, SourceThreads
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.gateway.turns import SURE_S
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.model.order import END
from wallaroo.system.failpoints import fault
from wallaroo.wire.refusals import refusal

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from wallaroo.connectors.kafka.fetch import Fetched

_AT_ONCE = 5_000
"""Records that are taken at once at most; they become one block."""
_WAIT_S = 0.2
"""Wait for records, before looking whether to stop."""
_COMMIT_S = 2.0
"""Seconds between commits to the group."""
_AGAIN_S = 2.0
"""Seconds between looks at a topic whose brokers were away."""
_STILL_S = 120.0
"""Seconds between looks whether partitions that do not move have records: more than a fetch may
take on a slow network."""
_SAME_S = 0.25
"""Seconds in which no topic is deleted, recreated and filled again up to where it was read."""

log = structlog.get_logger("wallaroo.gateway")


def open_sources(context: ConnectorContext, sources: Mapping[int, KafkaSource]) -> SourceThreads:
    """Make the connector of all such sources, which come by their index in the application.

    Raises:
        RuntimeFailure: The extra is not installed, or settings cannot be used.
    """
    # else the garbage collector looks at all records that are taken at once, several times
    gc.set_threshold(max(gc.get_threshold()[0], 4 * _AT_ONCE), *gc.get_threshold()[1:])
    return SourceThreads(KafkaReader, context, sources)


class KafkaReader(SourceThread[KafkaSource, Positions]):
    """Reads one topic.

    Raises:
        RuntimeFailure: The extra is not installed, or the settings cannot be used.
    """

    WAITS = "it waits for the brokers"

    def __init__(self, context: ConnectorContext, index: int, source: KafkaSource) -> None:
        super().__init__(context, index, source)
        self._client = TopicClient(source.topic, self._stopping)
        self._client.check()
        self._group = source.group or f"wallaroo-{source.name}"
        self._ends: dict[int, int] = {}
        """Where the partitions ended last, by partition."""
        self._bytes = 0
        self._looked = self._committed = self._expected = 0.0
        self._sure = self._asked_at = 0.0
        """When the topic was last known to be the right one, and when that was last asked."""
        self._asked: Asked | None = None
        """A question for the topic that was not answered yet."""
        self._committed_offsets: Mapping[int, int] = {}
        self._looked_at: Mapping[int, int] = {}
        """The positions at the last look, if reading has not waited for room since."""
        self._behind: set[int] = set()
        """Partitions that had records after these positions then."""
        self._lanes: Lanes | None = None
        """Records that wait for their turn; None if the source is not read in the order of time."""
        self._paused: set[int] = set()
        """Partitions of which nothing comes, as too much waits."""
        self._polled = time.monotonic()
        """When the client was last asked for records."""

    def samples(self) -> Iterator[Sample]:
        """Lag, bytes and errors since the gateway started."""
        name, positions = self._source.name, self._reached
        for partition, end in sorted(self._ends.items()):
            read = 0 if positions is None else positions.offsets.get(partition, 0)
            lag = max(0, end - read)
            yield Sample(catalogue.KAFKA_LAG, (name, str(partition)), lag)
        yield Sample(catalogue.KAFKA_SOURCE_BYTES, (name,), self._bytes)
        yield Sample(catalogue.KAFKA_SOURCE_ERRORS, (name,), self._client.errors)

    def _read(self) -> None:
        """Take records until stopped."""
        self._asked, self._looked_at, self._behind = None, {}, set()
        self._expected = time.monotonic()
        topic_id, partitions = self._client.describe()
        self._looked = time.monotonic()
        consumer = self._client.consumer(self._group)
        with contextlib.closing(consumer):
            offsets = self._resume(consumer, topic_id, partitions)
            self._assign(consumer, offsets)
            self._well()
            while not self._stopping.is_set():
                self._look(consumer)
                self._commit(consumer)
                if not self._has_room():
                    self._looked_at = {}
                    continue  # librdkafka pauses when its own buffer is full
                wait_s = _WAIT_S if self._lanes is None or self._lanes.next_ns is None else 0.0
                before, self._polled = self._polled, time.monotonic()
                fetched: list[Fetched] = []
                if (first := consumer.poll(wait_s)) is not None:
                    fetched = [first, *consumer.consume(_AT_ONCE, 0)]
                    self._make_sure()
                if self._lanes is not None:
                    fetched = self._in_order(consumer, self._lanes, fetched, before)
                if fetched:
                    if (event := self._take(fetched)) is not None:
                        self._pass(consumer, event)
                elif first is None and self._client.last_error is not None:
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
        positions = self._reached
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
            offsets = positions.within(bounds)
            new = [at for at in partitions if at not in offsets]
            offsets |= {at: first for at, (first, _) in self._bounds(consumer, new).items()}
            if lost:  # last: if the source fails before the new positions are kept, it repeats this
                self._report(lost)
        self._submit(0, b"", Positions(topic_id, offsets))
        return offsets

    def _report(self, lost: Mapping[int, str]) -> None:
        reasons = "; ".join(dict.fromkeys(lost.values()))
        if not self._source.skips_lost:
            remedy = "to read the remaining records, set on_lost='skip'"
            msg = f"{self._source.where}: {reasons}; {remedy}"
            raise KafkaProblem(msg)
        log.warning(
            "records lost",
            **self._names(),
            reason=reasons,
            effect="the source reads the remaining records",
        )

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
                msg = f"{self._source.where}: no broker says what partition {partition} holds"
                raise KafkaProblem(msg)
            found[partition] = bounds
        return found

    def _look(self, consumer: Consumer) -> None:
        """Look for new partitions, from time to time, and whether brokers that were away answer."""
        from confluent_kafka import TopicPartition

        options = self._client.settings.options
        every = float(options.get("topic.metadata.refresh.interval.ms", 30_000)) / 1000
        due = min(every, _AGAIN_S) if self.problem is not None else every
        positions = self._reached
        if time.monotonic() - self._looked < due or positions is None:
            return
        partitions = self._compare(*self._client.describe())
        self._looked = time.monotonic()
        if new := [at for at in partitions if at not in positions.offsets]:
            first = {at: low for at, (low, _) in self._bounds(consumer, new).items()}
            offsets = {**positions.offsets, **first}
            self._submit(0, b"", Positions(positions.topic_id, offsets))
            name = self._source.topic.name
            if self._lanes is not None:
                self._lanes.open(new)
            consumer.incremental_assign([TopicPartition(name, *at) for at in first.items()])
            log.info("source has new partitions", **self._names(), partitions=new)
        self._note_ends(consumer)
        self._expect_progress(consumer)
        self._well()

    def _expect_progress(self, consumer: Consumer) -> None:
        """Look, from time to time, whether partitions that have not moved since have records.

        librdkafka may never fetch a partition again whose leader was unknown for a moment.

        Raises:
            KafkaProblem: A partition has not moved between two looks, and had records at both.
        """
        if self._reached is None or time.monotonic() - self._expected < _STILL_S:
            return
        self._expected, offsets = time.monotonic(), self._reached.offsets
        still = [at for at, offset in offsets.items() if self._looked_at.get(at) == offset]
        bounds = self._bounds(consumer, still)
        behind = {at for at, (_, end) in bounds.items() if offsets[at] < end}
        if stuck := sorted(behind & self._behind):
            stopped = f"has stopped reading partitions {stuck}"
            msg = f"the client for {self._source.where} {stopped} and is replaced"
            raise KafkaProblem(msg)
        self._looked_at, self._behind = offsets, behind

    def _make_sure(self) -> None:
        """Look whether what was fetched comes from the topic that was read before.

        librdkafka goes on with the next offset if a topic was recreated while it had no connection,
        or fetched nothing. As long as records come in, the brokers are asked early enough that
        nothing waits for their answers.

        Raises:
            KafkaProblem: It does not, or no broker answers.
        """
        now = time.monotonic()
        if self._asked is not None and (self._asked.done() or now - self._sure >= _SAME_S):
            asked, self._asked = self._asked, None
            self._compare(*self._client.answered(asked))
            self._sure = self._asked_at
        if now - self._sure >= _SAME_S:
            self._compare(*self._client.describe())
            self._sure = time.monotonic()
        elif self._asked is None and now - self._sure >= _SAME_S / 2:
            self._asked, self._asked_at = self._client.ask(), now

    def _compare(self, topic_id: str, partitions: list[int]) -> list[int]:
        """The *partitions* of the topic with this ID, if it is the one that was read before.

        Raises:
            KafkaProblem: The topic was recreated.
        """
        assert self._reached is not None
        if topic_id != self._reached.topic_id:
            if not self._source.skips_lost:
                self._report(lost_records(self._reached, topic_id, {}))
            msg = f"{self._source.where} was deleted and recreated; it is opened again"
            raise KafkaProblem(msg)
        return partitions

    def _note_ends(self, consumer: Consumer) -> None:
        """Note where the partitions end, as fetched records have told."""
        from confluent_kafka import TopicPartition

        for partition in self._reached.offsets if self._reached else ():
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

    def _take(self, messages: Sequence[Fetched]) -> Fetched | None:
        """Hand records in, once there is room, with the positions after them.

        Returns:
            The report of a batch that cannot be unpacked; None if there is none.

        Raises:
            KafkaProblem: There is something else than records, behind those that were handed in.
        """
        assert self._reached is not None
        limit, envelope = self._source.framing.max_frame, self._source.envelope
        fetch = fetch_of(messages, limit, envelope=envelope)
        self._ends |= fetch.ends
        offsets = {**self._reached.offsets, **fetch.offsets}
        if offsets != self._reached.offsets:
            self._bytes += len(fetch.data)
            self._submit(fetch.count, fetch.data, Positions(self._reached.topic_id, offsets))
            self._well()
        error = None if fetch.problem is None else fetch.problem.error()
        if error is not None and not is_of_a_batch(fetch.problem):
            raise self._client.problem(error)
        return fetch.problem

    def _pass(self, consumer: Consumer, event: Fetched) -> None:
        """Hand in a refusal for the batch that *event* reports, and read on behind it.

        Raises:
            KafkaProblem: It can be unpacked now, no broker answers, or the source is to stop.
        """
        assert self._reached is not None
        partition = event.partition() or 0
        first = max(event.offset() or 0, self._reached.offsets[partition])
        _, end = self._bounds(consumer, [partition])[partition]
        next_ = max(end_of_batch(self._client, self._group, event, end), first + 1)
        records = f"record {first}" if next_ == first + 1 else f"records {first} to {next_ - 1}"
        reason = (
            f"{records} of partition {partition} of {self._source.topic}: the batch cannot be "
            f"unpacked: {error_text(event)}"
        )
        offsets = {**self._reached.offsets, partition: next_}
        data = self._source.framing.frame(refusal(reason))
        self._submit(1, data, Positions(self._reached.topic_id, offsets))
        log.warning("batch refused", **self._names(), reason=reason)
        self._assign(consumer, offsets)
        self._well()

    def _assign(self, consumer: Consumer, offsets: Mapping[int, int]) -> None:
        """Read on from *offsets*."""
        from confluent_kafka import TopicPartition

        if self._turn is not None:
            times_of = times_of_records(self._source, self._times_of)
            self._lanes = Lanes(offsets, times_of, self._source.idle_ns / 1e9)
            self._paused = set()
        name = self._source.topic.name
        consumer.assign([TopicPartition(name, at, offset) for at, offset in offsets.items()])

    def _in_order(
        self, consumer: Consumer, lanes: Lanes, fetched: Sequence[Fetched], polled: float
    ) -> list[Fetched]:
        """Return the records whose turn it is, after *fetched* has come as well.

        *polled* is when the client was asked for records the time before.

        Raises:
            KafkaProblem: There is something else than records of a partition.
        """
        from confluent_kafka import TopicPartition

        assert self._turn is not None
        name = self._source.topic.name

        def end_of(partition: int) -> int:
            bounds = consumer.get_watermark_offsets(TopicPartition(name, partition), cached=True)
            return END if bounds is None or bounds[1] < 0 else bounds[1]

        for event in fetched:
            error = event.error()
            if error is not None and error.name() != "_PARTITION_EOF" and not is_of_a_batch(event):
                raise self._client.problem(error)
        lanes.add(fetched, end_of)
        if time.monotonic() - polled > SURE_S:  # more may have come everywhere than was fetched
            ends = self._bounds(consumer, lanes.at_end)
            lanes.note_ends({at: end for at, (_, end) in ends.items()})
        taken: list[Fetched] = []
        if (at := lanes.next_ns) is not None:
            taken = lanes.take(self._turn.limit(at, 0.0 if fetched else _WAIT_S), _AT_ONCE)
        if lanes.next_ns is None:
            bound = lanes.bound_ns
            self._turn.rests(self._polled) if bound == END else self._turn.reads(bound)
        else:  # waiting records do not mean that the client has stopped reading
            self._looked_at = {}
        if (full := lanes.full(self._paused)) != self._paused:
            for change, partitions in (
                (consumer.pause, full - self._paused),
                (consumer.resume, self._paused - full),
            ):
                if partitions:
                    change([TopicPartition(name, partition) for partition in partitions])
            self._paused = full
        return taken

    def _submit(self, count: int, data: bytes, positions: Positions) -> None:
        reached = Reached(self._source.name, positions.encoded())
        submit = functools.partial(self._journal.submit, self._index, count, data, reached=reached)
        fault("kafka-source-before-submit")
        self._hand_in(submit, positions)
        fault("kafka-source-after-submit")

    def _well(self) -> None:
        """Note that reading goes on."""
        self._client.well()
        super()._well()

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        """Note a failure, and count it with those that the client reports."""
        self._client.errors += 1
        super()._failed(reason, next_try_s)

    def _reason(self, error: BaseException) -> str | None:
        return None if self._stopping.is_set() else self._client.reason(error)
