"""Positions of a source beside what the brokers have, to be shown and moved."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from wallaroo.api.durations import since_epoch_ns
from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.offsets import bounds_of, offsets_at
from wallaroo.connectors.kafka.positions import Bounds, Partition, Positions, lost_records
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.topic_watch import TopicWatch
from wallaroo.errors import RuntimeFailure, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

Target = str | int | datetime
"""Where a position is moved: `earliest`, `latest`, an offset or a time."""


class Progress:
    """How far a source has read its topics.

    Args:
        source: The source.
        stored: Its position, as the journal keeps it; None if there is none.

    Raises:
        RuntimeFailure: No topic exists, or no broker answers; or the position is not one in topics.
    """

    def __init__(self, source: KafkaSource, stored: bytes | None) -> None:
        source.check()
        self.source = source
        self._client = TopicClient(replace(source.topic, create=None), threading.Event())
        self.topics = TopicWatch(self._client)
        with self._asking():
            self.positions = None if stored is None else Positions.decoded(stored)
            """None if the source has not been read yet."""
            self.topics.find(() if self.positions is None else self.positions.ids)
            self.bounds: Bounds = bounds_of(self._client, self.topics.partitions)

    @property
    def recreated(self) -> set[str]:
        """Names of topics that are no longer those that were read."""
        known = {} if self.positions is None else self.positions.ids
        return {name for name, of in self.topics.ids.items() if known.get(name, of) != of}

    def position(self, partition: Partition) -> int | None:
        """Offset of the next record of *partition*; None if nothing of it has been read."""
        if self.positions is None or partition.topic in self.recreated:
            return None
        return self.positions.offsets.get(partition)

    @property
    def lost(self) -> list[str]:
        """Why the source cannot continue where it was; empty if it can."""
        if self.positions is None:
            return []
        return lost_records(self.positions, self.source.topic, self.topics.ids, self.bounds)

    def offsets(self, target: Target, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset of *target* in each of *partitions*.

        Raises:
            UsageError: A partition has no such offset.
            RuntimeFailure: No broker answers.
        """
        bounds = {partition: self.bounds[partition] for partition in partitions}
        if isinstance(target, int):
            for partition, (first, end) in bounds.items():
                if not first <= target <= end:
                    where = self.source.topic.one(partition.topic)
                    msg = (
                        f"offset {target} is not in partition {partition.number} of {where}, "
                        f"which begins at {first} and ends at {end}"
                    )
                    raise UsageError(msg)
            return dict.fromkeys(partitions, target)
        if isinstance(target, datetime):
            ns = since_epoch_ns(target)
            target = max(0, -(-ns // 1_000_000))  # records have milliseconds
        with self._asking() as consumer:
            return offsets_at(consumer, target, bounds)

    def moved(self, offsets: Mapping[Partition, int]) -> bytes:
        """The position with other *offsets* of some partitions, as the journal keeps it."""
        known = {} if self.positions is None else self.positions.ids
        ids = {name: of for name, of in known.items() if self.source.topic.includes(name)}
        ids |= {at.topic: self.topics.ids[at.topic] for at in offsets}
        before = {} if self.positions is None else self.positions.offsets
        kept = {at: offset for at, offset in before.items() if ids.get(at.topic) == known[at.topic]}
        return Positions(ids, {**kept, **offsets}).encoded()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Consumer]:
        """A consumer that asks the brokers.

        Raises:
            RuntimeFailure: They do not answer.
        """
        from confluent_kafka import KafkaException

        try:
            with contextlib.closing(self._client.consumer("wallaroo")) as consumer:
                yield consumer
        except (KafkaProblem, KafkaException) as error:
            msg = f"source {self.source.name!r}: {self._client.reason(error)}"
            raise RuntimeFailure(msg) from None
