"""Positions in topics: the next offset of each partition, for one incarnation of each topic."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.topic import Topic


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number} of topic {self.topic}"


Bounds = Mapping[Partition, tuple[int, int]]
"""First offset and end of partitions."""


@dataclass(frozen=True)
class Positions:
    """The positions of a source.

    Example:
        >>> positions = Positions({"a": "a1"}, {Partition("a", 0): 7, Partition("a", 12): 0})
        >>> positions.encoded()
        b'{"a": {"id": "a1", "next": {"0": 7, "12": 0}}}'
        >>> Positions.decoded(positions.encoded()) == positions
        True
    """

    ids: Mapping[str, str]
    """IDs of the topics, by name: a topic that was deleted and recreated has another."""
    offsets: Mapping[Partition, int]
    """Offset of the next record of each partition."""

    def encoded(self) -> bytes:
        """The positions as the journal keeps them."""
        offsets: dict[str, dict[int, int]] = {name: {} for name in self.ids}
        for (name, number), offset in self.offsets.items():
            offsets[name][number] = offset
        topics = {name: {"id": of, "next": offsets[name]} for name, of in self.ids.items()}
        return json.dumps(topics).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Positions:
        """The positions that the journal has kept.

        Raises:
            KafkaProblem: They are not those of topics.
        """
        try:
            topics = json.loads(data).items()
            return cls(
                {name: str(topic["id"]) for name, topic in topics},
                {
                    Partition(name, int(number)): int(offset)
                    for name, topic in topics
                    for number, offset in topic["next"].items()
                },
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            msg = (
                "the journal has a position of this source that is not one in topics: the source "
                "of this pipeline was another; rename the pipeline, or use a new state directory"
            )
            raise KafkaProblem(msg) from None

    def resumed(
        self, ids: Mapping[str, str], bounds: Bounds, dropped: Container[str] = ()
    ) -> Positions:
        """The positions to go on from, so that no record is read again.

        Args:
            ids: IDs of the topics that exist, by name. Positions in others are kept.
            bounds: First offset and end of the partitions of these.
            dropped: Names of topics whose positions are not kept.

        Example:
            >>> a, b, c = Partition("a", 0), Partition("a", 1), Partition("b", 0)
            >>> before = Positions({"a": "a1", "b": "b1"}, {a: 7, c: 3})
            >>> before.resumed({"a": "a1"}, {a: (9, 12), b: (0, 4)}).offsets[c]
            3
            >>> list(before.resumed({"a": "a1"}, {a: (9, 12), b: (0, 4)}, ["b"]).offsets.values())
            [9, 0]
            >>> list(before.resumed({"a": "a2"}, {a: (0, 12)}, ["b"]).offsets.values())
            [0]
        """
        kept = {name: topic_id for name, topic_id in self.ids.items() if name not in dropped}
        offsets = {
            at: offset
            for at, offset in self.offsets.items()
            if at.topic in kept and at.topic not in ids
        }
        for at, (first, end) in bounds.items():
            is_same = self.ids.get(at.topic) == ids[at.topic]
            reached = self.offsets.get(at, first) if is_same else first
            offsets[at] = min(max(reached, first), end)
        return Positions({**kept, **ids}, offsets)


def lost_records(
    positions: Positions, topic: Topic, ids: Mapping[str, str], bounds: Bounds
) -> list[str]:
    """Why reading cannot go on everywhere where it was.

    A topic that does not exist is waited for; topics that match a pattern may come and go.

    Args:
        positions: How far the source has read.
        topic: The topics that it reads.
        ids: IDs of those of them that exist, by name.
        bounds: First offset and end of each partition of these.

    Example:
        >>> positions = Positions({"a": "a1"}, {Partition("a", 0): 7, Partition("a", 1): 7})
        >>> bounds = {Partition("a", 0): (7, 9), Partition("a", 1): (9, 12)}
        >>> lost_records(positions, Topic("a", "broker:9092"), {"a": "a1"}, bounds)
        ['records 7 to 8 of partition 1 of topic a were deleted before they were read']
    """
    return [*_other_topics(positions, topic, ids), *_lost_of_same(positions, ids, bounds)]


def _other_topics(positions: Positions, topic: Topic, ids: Mapping[str, str]) -> Iterator[str]:
    for name, topic_id in positions.ids.items():
        if not topic.includes(name):
            yield f"the source has read topic {name} until now"
        elif topic.pattern is None and ids.get(name, topic_id) != topic_id:
            yield (
                f"topic {name} is not the one that was read before: it was deleted and recreated"
            )


def _lost_of_same(positions: Positions, ids: Mapping[str, str], bounds: Bounds) -> Iterator[str]:
    for at, offset in positions.offsets.items():
        if ids.get(at.topic) != positions.ids[at.topic]:
            continue
        if at not in bounds:
            yield f"{at} is gone"
            continue
        first, end = bounds[at]
        if offset < first:
            last = f" to {first - 1}" if first - 1 > offset else ""
            yield (
                f"record{'s' if last else ''} {offset}{last} of {at} were deleted before they were "
                "read"
            )
        elif offset > end:
            yield (
                f"{at} ends at {end}, and was read up to {offset} before: the brokers have lost "
                "records"
            )
