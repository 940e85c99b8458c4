"""Topics as sources: records into the journal, with the positions in the same transaction.

Partitions are assigned here, not by a group: the journal knows how far each is read. What is on
disk is committed to a group as well, for tools that show the lag; nothing reads it from there.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from wallaroo.connectors.kafka.batches import end_of_batch, error_text, is_of_a_batch
from wallaroo.connectors.kafka.client import LONGEST_PAUSE_S, Asked, TopicClient, end_in
from wallaroo.connectors.kafka.fetch import (
    fetch_of,
    partition_of,
    times_of_records,
    without_group,
)
from wallaroo.connectors.kafka.group_commits import GroupCommits
from wallaroo.connectors.kafka.offsets import bounds_of, offsets_at
from wallaroo.connectors.kafka.partition_order import Lanes
from wallaroo.connectors.kafka.positions import Partition, Positions, lost_records
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.stored import refused
from wallaroo.connectors.kafka.table_end import TableEnd
from wallaroo.connectors.kafka.topic_watch import TopicWatch
from wallaroo.connectors.threads import SourceThread, SourceThreads
from wallaroo.errors import SKIP_LOST
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.journal.write_buffer import Reached
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
_TELL_S = 2.0
"""Seconds between commits to the group, and between questions for the lag."""
_AGAIN_S = 2.0
"""Seconds between looks at a topic whose brokers were away."""
_STILL_S = 120.0
"""Seconds between looks whether partitions that do not move have records: more than a fetch may
take on a slow network."""

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
    """Reads the topics of one source.

    Raises:
        RuntimeFailure: The extra is not installed, or the settings cannot be used.
    """

    LONGEST_PAUSE_S = LONGEST_PAUSE_S
    WAITS = "it waits for the brokers"

    def __init__(self, context: ConnectorContext, index: int, source: KafkaSource) -> None:
        super().__init__(context, index, source)
        self._group = source.group or f"{source.prefix}-{context.application}-{source.name}"
        self._client = TopicClient(source.topic, self._stopping, "READ", self._group)
        self._client.check()
        self._topics = TopicWatch(self._client)
        self._delivery_times = context.outbox.delivery_times
        self._table = TableEnd(context.tables, index, self._client, self._topics)
        self._commits = GroupCommits(self._client, self._names())
        self._asked_ends: dict[Partition, Asked] = {}
        self._ends: Mapping[Partition, int] = {}
        """Where the partitions that are read ended last."""
        self._bytes = 0
        self._looked = self._told = self._expected = 0.0
        self._looked_at: Mapping[Partition, int] = {}
        """The positions at the last look, if reading has not waited for room since."""
        self._behind: set[Partition] = set()
        """Partitions that had records after these positions then."""
        self._lanes: Lanes | None = None
        """Records that wait for their turn; None if the source is not read in the order of time."""
        self._paused: set[Partition] = set()
        """Partitions of which nothing comes, as too much waits."""

    def samples(self) -> Iterator[Sample]:
        """Lag, bytes and errors since the gateway started."""
        name, positions = self._source.name, self._reached
        for partition, end in sorted(self._ends.items()):
            read = 0 if positions is None else positions.offsets.get(partition, 0)
            lag = max(0, end - read)
            yield Sample(catalogue.KAFKA_LAG, (name, partition.topic, str(partition.number)), lag)
        yield Sample(catalogue.KAFKA_SOURCE_BYTES, (name,), self._bytes)
        yield Sample(catalogue.KAFKA_SOURCE_ERRORS, (name,), self._client.errors)

    def _read(self) -> None:
        """Take records until stopped."""
        from confluent_kafka import Message

        self._looked_at, self._behind = {}, set()
        self._expected = time.monotonic()
        if self._reached is None and (stored := self._journal.reached(self._source.name)):
            self._reached = Positions.decoded(stored)
        self._topics.find(() if self._reached is None else self._reached.ids)
        consumer = self._client.consumer(self._group)
        with contextlib.closing(consumer):
            self._resume(consumer)
            self._note_look()
            while not self._stopping.is_set():
                self._look(consumer)
                self._tell()
                if not self._has_room():
                    self._looked_at = {}
                    continue  # librdkafka pauses when its own buffer is full
                wait_s = _WAIT_S if self._lanes is None or self._lanes.next_ns is None else 0.0
                fetched: list[Fetched] = []
                if (first := consumer.poll(wait_s)) is not None:
                    fetched = without_group([first, *consumer.consume(_AT_ONCE, 0)])
                    self._topics.make_sure(set(map(Message.topic, fetched)))
                if self._lanes is not None:
                    fetched = self._in_order(consumer, self._lanes, fetched)
                if fetched:
                    if (event := self._take(fetched)) is not None:
                        self._pass(consumer, event)
                    if self._lanes is None and len(fetched) < _AT_ONCE:  # it has caught up
                        self._stopping.wait(self._delivery_times.gap_s)
                elif first is None and self._client.last_error is not None:
                    reason = str(self._client.problem(self._client.last_error))
                    if reason != self.problem:
                        self._failed(reason)

    def _resume(self, consumer: Consumer) -> None:
        """Read on in the topics that were found, from positions that the journal has from now on.

        Raises:
            KafkaProblem: Records that were not read are gone, and the source is not to skip them.
        """
        before, ids = self._reached, self._topics.ids
        bounds = bounds_of(self._client, self._topics.partitions)
        if before is None:
            offsets = offsets_at(consumer, self._source.start, bounds)
            positions, lost, removed = Positions(ids, offsets), [], set()
        else:
            topic = self._source.topic
            removed = {name for name in before.ids if not topic.includes(name)}
            dropped = removed | self._topics.note_deleted(before, self._ends)
            positions = before.resumed(ids, bounds, dropped)
            lost = lost_records(before, topic, ids, bounds)
        self._ends = {at: end for at, (_, end) in bounds.items()}
        if lost:  # last: if the source fails before the new positions are kept, it repeats this
            self._report(lost, removed)
        self._submit(0, b"", positions)
        self._table.ask(positions)
        if self._tables_are_read():
            self._assign(consumer, {at: positions.offsets[at] for at in bounds})

    def _report(self, lost: Sequence[str], removed: Collection[str]) -> None:
        reasons = "; ".join(lost)
        if not self._source.skips_lost:
            msg = f"{self._source.where}: {reasons}; to read what is left, {SKIP_LOST}"
            raise KafkaProblem(msg)
        effect = "the source reads the remaining records"
        if removed:
            names = ", ".join(sorted(removed))
            effect += (
                f", and forgets its positions in {names} (read from the beginning if added again)"
            )
        log.warning("records lost", **self._names(), reason=reasons, effect=effect)

    def _look(self, consumer: Consumer) -> None:
        """Look for new topics and partitions, and whether brokers that were away answer."""
        options = self._client.settings.options
        every = float(options.get("topic.metadata.refresh.interval.ms", 30_000)) / 1000
        due = min(every, _AGAIN_S) if self.problem is not None else every
        if time.monotonic() - self._looked < due or self._reached is None:
            return
        before = self._reached.offsets.keys()
        if self._topics.has_changed(self._reached.ids):
            self._resume(consumer)
            new = sorted(self._reached.offsets.keys() - before)
            log.info("source has new partitions", **self._names(), partitions=[*map(str, new)])
        self._expect_progress()
        self._note_look()

    def _note_look(self) -> None:
        """Note that reading continues, except of topics that do not exist."""
        self._looked = time.monotonic()
        if self._topics.missing is None:
            self._well()
        else:
            self._failed(self._topics.missing, _AGAIN_S)

    def _expect_progress(self) -> None:
        """Look, from time to time, whether partitions that have not moved since have records.

        librdkafka may never fetch a partition again whose leader was unknown for a moment.

        Raises:
            KafkaProblem: A partition has not moved between two looks, and had records at both.
        """
        if self._reached is None or time.monotonic() - self._expected < _STILL_S:
            return
        self._expected, reached = time.monotonic(), self._reached.offsets
        offsets = {at: reached[at] for at in self._topics.partitions}
        still = [at for at, offset in offsets.items() if self._looked_at.get(at) == offset]
        bounds = bounds_of(self._client, still)
        behind = {at for at, (_, end) in bounds.items() if offsets[at] < end}
        if stuck := sorted(behind & self._behind):
            stopped = f"has stopped reading {', '.join(map(str, stuck))}"
            msg = f"the client for {self._source.where} {stopped}; it is replaced"
            raise KafkaProblem(msg)
        self._looked_at, self._behind = offsets, behind

    def _note_ends(self) -> None:
        """Note where partitions ended when that was asked last, and ask again."""
        found = {at: end_in(asked) for at, asked in self._asked_ends.items() if at in self._ends}
        self._ends = {**self._ends, **{at: end for at, end in found.items() if end is not None}}
        self._asked_ends = self._client.ask_ends(self._topics.partitions)

    def _tell(self) -> None:
        """Let metrics and the group have the positions, from time to time."""
        if time.monotonic() - self._told < _TELL_S:
            return
        self._told = time.monotonic()
        self._note_ends()
        stored = self._journal.reached(self._source.name)
        known = {} if stored is None else Positions.decoded(stored).offsets
        self._commits.commit({at: known[at] for at in self._topics.partitions if at in known})

    def _take(self, messages: Sequence[Fetched]) -> Fetched | None:
        """Hand records in, once there is room, with the positions after them.

        Returns:
            The report of a batch that cannot be unpacked; None if there is none.

        Raises:
            KafkaProblem: There is something else than records, behind those that were handed in.
        """
        assert self._reached is not None
        limit, whole = self._source.framing.max_frame, self._source.stores_records
        fetch = fetch_of(messages, limit, whole=whole)
        self._ends = {**self._ends, **fetch.ends}
        offsets = {**self._reached.offsets, **fetch.offsets}
        if offsets != self._reached.offsets:
            self._bytes += len(fetch.data)
            self._submit(fetch.count, fetch.data, replace(self._reached, offsets=offsets))
            self._well()
        self._check(fetch.problem)
        return fetch.problem

    def _check(self, event: Fetched | None) -> None:
        """Look whether *event* is a record, an end of a partition, or of a single batch.

        Raises:
            KafkaProblem: It is an error.
        """
        error = None if event is None else event.error()
        if event is None or error is None or error.name() == "_PARTITION_EOF":
            return
        if not is_of_a_batch(event):
            raise self._client.problem(error, topic=event.topic())

    def _pass(self, consumer: Consumer, event: Fetched) -> None:
        """Hand in a refusal for the batch that *event* reports, and read on behind it.

        Raises:
            KafkaProblem: It can be unpacked now, no broker answers, or the source is to stop.
        """
        assert self._reached is not None
        partition = name, number = partition_of(event)
        first = max(event.offset() or 0, self._reached.offsets[partition])
        _, end = bounds_of(self._client, [partition])[partition]
        next_ = max(end_of_batch(self._client, self._group, event, end), first + 1)
        records = f"record {first}" if next_ == first + 1 else f"records {first} to {next_ - 1}"
        reason = (
            f"{records} of partition {number} of {self._source.topic.one(name)}: the batch cannot "
            f"be unpacked: {error_text(event)}"
        )
        offsets = {**self._reached.offsets, partition: next_}
        place = KafkaRecord(None, partition=number, offset=first, topic=name)
        stands = refused(reason, place) if self._source.stores_records else refusal(reason)
        data = self._source.framing.frame(stands)
        self._submit(1, data, replace(self._reached, offsets=offsets))
        log.warning("batch refused", **self._names(), reason=reason)
        self._assign(consumer, {at: offsets[at] for at in self._topics.partitions})
        self._well()

    def _assign(self, consumer: Consumer, offsets: Mapping[Partition, int]) -> None:
        """Read on from *offsets*."""
        from confluent_kafka import TopicPartition

        if self._turn is not None:
            times_of = times_of_records(self._source, self._times_of)
            self._lanes = Lanes(offsets, times_of, self._source.idle_ns / 1e9)
            self._paused = set()
        consumer.assign([TopicPartition(*at, offset) for at, offset in offsets.items()])

    def _in_order(
        self, consumer: Consumer, lanes: Lanes, fetched: Sequence[Fetched]
    ) -> list[Fetched]:
        """Return the records whose turn it is, after *fetched* has come as well.

        Raises:
            KafkaProblem: There is something else than records of a partition.
        """
        from confluent_kafka import TopicPartition

        assert self._turn is not None

        def end_of(partition: Partition) -> int:
            bounds = consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            return END if bounds is None or bounds[1] < 0 else bounds[1]

        for event in fetched:
            self._check(event)
        lanes.add(fetched, end_of)
        if unsure := lanes.unsure:  # what was fetched may have been under way for long
            asked = time.monotonic()
            lanes.note_ends(self._client.ends(unsure), asked)
        taken: list[Fetched] = []
        if (at := lanes.next_ns) is not None:
            taken = lanes.take(self._turn.limit(at, 0.0 if fetched else _WAIT_S), _AT_ONCE)
        if lanes.next_ns is None:
            bound = lanes.bound_ns
            self._turn.rests(lanes.sure) if bound == END else self._turn.reads(bound)
        else:  # waiting records do not mean that the client has stopped reading
            self._looked_at = {}
        if (full := lanes.full(self._paused)) != self._paused:
            for change, partitions in (
                (consumer.pause, full - self._paused),
                (consumer.resume, self._paused - full),
            ):
                if partitions:
                    change([TopicPartition(*partition) for partition in partitions])
            self._paused = full
        return taken

    def _submit(self, count: int, data: bytes, positions: Positions) -> None:
        reached = Reached(self._source.name, positions.encoded())
        submit = functools.partial(self._journal.submit, self._index, count, data, reached=reached)
        fault("kafka-source-before-submit")
        if self._hand_in(submit, positions):
            self._table.note(positions)
        fault("kafka-source-after-submit")

    def _well(self) -> None:
        """Note that reading goes on."""
        self._client.well()
        self.failures, self.problem = 0, self._topics.missing

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        """Note a failure, and count it with those that the client reports."""
        self._client.errors += 1
        super()._failed(reason, next_try_s)

    def _reason(self, error: BaseException) -> str | None:
        return None if self._stopping.is_set() else self._client.reason(error)
