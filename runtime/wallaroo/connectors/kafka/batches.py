"""Batches of records that the client cannot unpack, and where they end.

The client reports the first offset of such a batch, and then fetches it again without end. A fetch
from any offset within the batch fails in the same way, which tells where the next one begins.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from wallaroo.connectors.kafka.client import REQUEST_S, TopicClient
from wallaroo.connectors.kafka.fetch import is_of_group, partition_of
from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.problems import KafkaProblem

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from wallaroo.connectors.kafka.fetch import Fetched

_OF_A_BATCH = frozenset({"_BAD_COMPRESSION", "_BAD_MSG", "_NOT_IMPLEMENTED"})
"""Errors of one batch: its data is damaged, too large, or compressed with an unknown codec."""
_TURN_S = 0.2
"""Wait for the client, before looking whether to stop."""


def is_of_a_batch(event: Fetched | None) -> bool:
    """Whether *event* reports a batch that cannot be unpacked."""
    error = None if event is None or event.offset() is None else event.error()
    return error is not None and error.name() in _OF_A_BATCH


def error_text(event: Fetched) -> str:
    """What *event* says of the batch."""
    error = event.error()
    return "" if error is None else error.str()


def end_of_batch(client: TopicClient, group: str, event: Fetched, end: int) -> int:
    """Offset after the batch that *event* reports, or before which no later batch begins.

    Args:
        client: Makes consumers.
        group: Group of such a consumer, which commits nothing.
        event: The report.
        end: Where the partition ends.

    Raises:
        KafkaProblem: The batch can be unpacked now, no broker answers, or the source is to stop.
    """
    partition, first = partition_of(event), event.offset() or 0
    with contextlib.closing(client.consumer(group)) as consumer:
        if not _fails(client, consumer, partition, first, first):
            msg = f"{client.topic}: the batch at {first} of {partition} is fetched again"
            raise KafkaProblem(msg)
        within, beyond, step = first, end, 1
        while within + 1 < beyond:
            # first in steps that double, as the batch is short compared with what follows it
            at = min(within + step, (within + beyond) // 2) if step else (within + beyond) // 2
            if _fails(client, consumer, partition, at, first):
                within, step = at, 2 * step
            else:
                beyond, step = at, 0
    return beyond


def _fails(
    client: TopicClient, consumer: Consumer, partition: Partition, offset: int, first: int
) -> bool:
    """Whether a fetch from *offset* reports the batch that begins at *first*.

    Raises:
        KafkaProblem: No broker answers, or the source is to stop.
    """
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(*partition, offset)])
    give_up = time.monotonic() + REQUEST_S
    while time.monotonic() < give_up:
        client.give_up()
        found = consumer.poll(_TURN_S)
        if found is None or is_of_group(found.error()):
            continue
        if partition_of(found) == partition:
            return is_of_a_batch(found) and found.offset() == first
    msg = f"{client.topic}: no broker says what is at {offset} of {partition}"
    raise KafkaProblem(msg)
