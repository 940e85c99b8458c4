"""Records of one fetch, in the form that the journal takes.

Each step handles all records at once: a loop over them takes longer than reading them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from wallaroo.connectors.kafka.records import packed_fields
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.model.endpoints import TimesOf
from wallaroo.wire.refusals import all_guarded, beginning, refusal

if TYPE_CHECKING:
    from confluent_kafka import Message

    Fetched: TypeAlias = Message[Any, Any]

_LENGTH = struct.Struct(">I")


@dataclass(frozen=True)
class Fetch:
    """Records up to the first error."""

    count: int
    """Records that are taken."""
    data: bytes
    """These records, as the journal has them."""
    offsets: Mapping[int, int]
    """Offset of the next record, by partition of which something came."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Where partitions end, by those that were read up to there."""
    problem: Fetched | None = None
    """The event of the error, behind which nothing is taken; None if there is none."""


def fetch_of(messages: Sequence[Fetched], limit: int, *, envelope: bool) -> Fetch:
    """What the journal is to have of *messages*: a refusal for a record over the limit.

    Args:
        messages: What a consumer has returned.
        limit: Most bytes of a message.
        envelope: Whether a message is the record with key, headers and place, not its value.
    """
    from confluent_kafka import Message

    problem: Fetched | None = None
    ends, records = {}, messages
    if any(map(Message.error, messages)):
        for index, message in enumerate(messages):
            if (error := message.error()) is not None and error.name() != "_PARTITION_EOF":
                problem, messages = message, messages[:index]  # what came before it counts
                break
        records = [message for message in messages if message.error() is None]
        ends = {_partition(at): at.offset() or 0 for at in messages if at.error() is not None}
    payloads = list(map(_enveloped, records)) if envelope else _values(records)
    lengths = list(map(len, payloads))
    if lengths and max(lengths) > limit:
        for at, length in enumerate(lengths):
            if length > limit:
                payloads[at] = _too_long(records[at], length, limit)
        lengths = list(map(len, payloads))
    last = dict(zip(map(Message.partition, messages), messages, strict=True))
    offsets = {
        partition or 0: (message.offset() or 0) + (message.error() is None)
        for partition, message in last.items()
    }
    return Fetch(len(payloads), _framed(payloads, lengths), offsets, ends, problem)


def times_of_records(
    source: KafkaSource, own: TimesOf | None
) -> Callable[[Sequence[Fetched]], Sequence[int | None]]:
    """Return what finds the times of records of *source*: their timestamps, or what *own* says.

    A timestamp in the future is that of a clock that is wrong, and no time.
    """
    if own is not None:
        payloads = (lambda records: list(map(_enveloped, records))) if source.envelope else _values
        return lambda records: own(payloads(records))

    def time_of(record: Fetched) -> int | None:
        kind, timestamp_ms = record.timestamp()
        return timestamp_ms * 10**6 if kind and timestamp_ms <= time.time() * 1000 else None

    return lambda records: list(map(time_of, records))


def _too_long(record: Fetched, length: int, limit: int) -> bytes:
    value: Any = record.value()
    return refusal(
        f"{place_of(record)} has {length} bytes; the limit is {limit}: raise --max-frame for those "
        f"after it; its value begins with {beginning(value or b'')}"
    )


def place_of(record: Fetched) -> str:
    """Where *record* is, in words."""
    return f"record {record.offset()} of partition {record.partition()} of topic {record.topic()}"


def _partition(message: Fetched) -> int:
    return message.partition() or 0


def _values(records: Sequence[Fetched]) -> list[bytes]:
    from confluent_kafka import Message

    values: list[Any] = list(map(Message.value, records))
    return all_guarded([value or b"" for value in values] if None in values else values)


def _framed(payloads: Sequence[bytes], lengths: Sequence[int]) -> bytes:
    """The *payloads*, which have these *lengths*, as the journal has them."""
    if payloads and lengths.count(lengths[0]) == len(lengths):
        head = _LENGTH.pack(lengths[0])
        return head + head.join(payloads)
    parts = [b""] * (2 * len(payloads))
    parts[0::2], parts[1::2] = map(_LENGTH.pack, lengths), payloads
    return b"".join(parts)


def _enveloped(message: Fetched) -> bytes:
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
