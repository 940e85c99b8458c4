"""Offsets of partitions, as the brokers have them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from wallaroo.connectors.kafka.client import REQUEST_S, Asked, TopicClient
from wallaroo.connectors.kafka.positions import Bounds, Partition

if TYPE_CHECKING:
    from confluent_kafka import Consumer


def bounds_of(
    client: TopicClient, partitions: Collection[Partition]
) -> dict[Partition, tuple[int, int]]:
    """First offset and end of each of *partitions*, as consumers of committed records see it.

    Raises:
        KafkaProblem: No broker says it.
    """
    client.last_error = None
    first = client.ask_ends(partitions, first=True, wait_s=REQUEST_S)
    end = client.ask_ends(partitions, wait_s=REQUEST_S)

    def offset(asked: Asked, at: Partition) -> int:
        found: int = client.answer(asked, at.topic).offset
        return found

    return {at: (offset(first[at], at), offset(end[at], at)) for at in partitions}


def offsets_at(consumer: Consumer, start: str | int, bounds: Bounds) -> dict[Partition, int]:
    """Where reading begins in each partition of *bounds*.

    Args:
        consumer: Asks the brokers.
        start: `earliest`, `latest`, or milliseconds since the Unix epoch.
        bounds: First offset and end of the partitions.
    """
    from confluent_kafka import TopicPartition

    if start == "earliest" or not bounds:
        return {at: first for at, (first, _) in bounds.items()}
    if start == "latest":
        return {at: end for at, (_, end) in bounds.items()}
    wanted = [TopicPartition(*at, int(start)) for at in bounds]
    found = {
        Partition(at.topic, at.partition): at.offset
        for at in consumer.offsets_for_times(wanted, REQUEST_S)
    }
    return {at: offset if offset >= 0 else bounds[at][1] for at, offset in found.items()}
