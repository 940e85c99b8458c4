"""Positions in a topic: the next offset of each partition, for one incarnation of the topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from wallaroo.connectors.kafka.problems import KafkaProblem


@dataclass(frozen=True)
class Positions:
    """The positions of a source.

    Example:
        >>> Positions.decoded(Positions("a1", {0: 7, 12: 0}).encoded())
        Positions(topic_id='a1', offsets={0: 7, 12: 0})
    """

    topic_id: str
    """ID of the topic: a topic that was deleted and recreated has another."""
    offsets: Mapping[int, int]
    """Offset of the next record of each partition."""

    def encoded(self) -> bytes:
        """The positions as the journal keeps them."""
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        return json.dumps({"topic": self.topic_id, "next": offsets}).encode()

    def within(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Where reading goes on in each partition of *bounds*: no record is read again.

        Args:
            bounds: First offset and end of partitions.

        Example:
            >>> Positions("a1", {0: 7, 1: 7, 2: 7}).within({0: (7, 9), 1: (9, 12), 2: (0, 4)})
            {0: 7, 1: 9, 2: 4}
        """
        return {at: min(max(self.offsets[at], first), end) for at, (first, end) in bounds.items()}

    @classmethod
    def decoded(cls, data: bytes) -> Positions:
        """The positions that the journal has kept.

        Raises:
            KafkaProblem: They are not those of a topic.
        """
        try:
            found = json.loads(data)
            offsets = {int(partition): int(offset) for partition, offset in found["next"].items()}
            return cls(str(found["topic"]), offsets)
        except (ValueError, TypeError, KeyError, AttributeError):
            msg = (
                "the journal has a position of this source that is not one in a topic: the source "
                "of this pipeline was another; rename the pipeline, or use a new state directory"
            )
            raise KafkaProblem(msg) from None


def lost_records(
    positions: Positions, topic_id: str, bounds: Mapping[int, tuple[int, int]]
) -> dict[int, str]:
    """Partitions in which reading cannot go on where it was, and why.

    Args:
        positions: How far the topic is read.
        topic_id: ID that the topic has now.
        bounds: First offset and end of each partition of *positions*.

    Example:
        >>> lost_records(Positions("a1", {0: 7, 1: 7}), "a1", {0: (7, 9), 1: (9, 12)})
        {1: 'records 7 to 8 of partition 1 were deleted before they were read'}
    """
    if topic_id != positions.topic_id:
        why = "the topic is not the one that was read before: it was deleted and recreated"
        return dict.fromkeys(positions.offsets, why)
    found = {}
    for partition, (first, end) in bounds.items():
        offset = positions.offsets[partition]
        if offset < first:
            last = f" to {first - 1}" if first - 1 > offset else ""
            found[partition] = (
                f"record{'s' if last else ''} {offset}{last} of partition {partition} were deleted "
                "before they were read"
            )
        elif offset > end:
            found[partition] = (
                f"partition {partition} ends at {end}, and was read up to {offset} before: the "
                "brokers have lost records"
            )
    return found
