"""Records of one fetch, in the form that the journal takes.

Each step handles all records at once: a loop over them takes longer than reading them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.records import KafkaRecord, packed_fields
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.stored import WHOLE, refused
from wallaroo.model.endpoints import TimesOf
from wallaroo.wire.refusals import all_guarded, beginning, refusal

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    Fetched: TypeAlias = Message[Any, Any]

_LENGTH = struct.Struct(">I")
_LONGEST = 1024
"""Bytes of a key, or of all headers, over which a refusal has none."""


@dataclass(frozen=True)
class Fetch:
    """Records up to the first error."""

    count: int
    """Records that are taken."""
    data: bytes
    """These records, as the journal has them."""
    offsets: Mapping[Partition, int]
    """Offset of the next record, by partition of which something came."""
    ends: Mapping[Partition, int] = field(default_factory=dict)
    """Where partitions end, by those that were read up to there."""
    problem: Fetched | None = None
    """The event of the error, behind which nothing is taken; None if there is none."""


def fetch_of(messages: Sequence[Fetched], limit: int, *, whole: bool) -> Fetch:
    """What the journal is to have of *messages*: a refusal for a record over the limit.

    Args:
        messages: What a consumer has returned.
        limit: Most bytes of a message.
        whole: Whether a message is the record with key, headers and place, not its value.
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
        ends = {partition_of(at): at.offset() or 0 for at in messages if at.error() is not None}
    payloads = list(map(_whole, records)) if whole else _values(records)
    lengths = list(map(len, payloads))
    if lengths and max(lengths) > limit:
        for at, length in enumerate(lengths):
            if length > limit:
                payloads[at] = _too_long(records[at], length, limit, whole=whole)
        lengths = list(map(len, payloads))
    offsets = {
        partition_of(message): (message.offset() or 0) + (message.error() is None)
        for message in _last_of_each(messages)
    }
    return Fetch(len(payloads), _framed(payloads, lengths), offsets, ends, problem)


def without_group(messages: list[Fetched]) -> list[Fetched]:
    """*messages* without reports that the group may not be used: reading requires none."""
    from confluent_kafka import Message

    if any(map(Message.error, messages)):
        return [message for message in messages if not is_of_group(message.error())]
    return messages


def is_of_group(error: KafkaError | None) -> bool:
    """Whether *error* says that a group may not be used."""
    return error is not None and error.name() == "GROUP_AUTHORIZATION_FAILED"


def times_of_records(
    source: KafkaSource, own: TimesOf | None
) -> Callable[[Sequence[Fetched]], Sequence[int | None]]:
    """Return what finds the times of records of *source*: their timestamps, or what *own* says.

    A timestamp in the future is that of a clock that is wrong, and no time.
    """
    if own is not None:
        payloads = (lambda records: list(map(_whole, records))) if source.envelope else _values
        return lambda records: own(payloads(records))

    def time_of(record: Fetched) -> int | None:
        kind, timestamp_ms = record.timestamp()
        return timestamp_ms * 10**6 if kind and timestamp_ms <= time.time() * 1000 else None

    return lambda records: list(map(time_of, records))


def _too_long(record: Fetched, length: int, limit: int, *, whole: bool) -> bytes:
    value: Any = record.value()
    reason = (
        f"{place_of(record)} has {length} bytes; the limit is {limit}: raise --max-frame for those "
        f"after it; its value begins with {beginning(value or b'')}"
    )
    if not whole:
        return refusal(reason)
    key, (kind, timestamp) = record.key(), record.timestamp()
    headers: Any = tuple(record.headers() or ())
    of_headers = sum(len(name.encode()) + len(value or b"") for name, value in headers)
    return refused(
        reason,
        KafkaRecord(
            None,
            key if key is None or len(key) <= _LONGEST else None,
            headers if of_headers <= _LONGEST else (),
            timestamp_ms=timestamp if kind else None,
            partition=record.partition(),
            offset=record.offset(),
            topic=record.topic(),
        ),
    )


def place_of(record: Fetched) -> str:
    """Where *record* is, in words."""
    return f"record {record.offset()} of partition {record.partition()} of topic {record.topic()}"


def _last_of_each(messages: Sequence[Fetched]) -> Collection[Fetched]:
    """The last message of each partition."""
    from confluent_kafka import Message

    numbers: Iterable[Any] = map(Message.partition, messages)
    if len(set(map(Message.topic, messages))) > 1:  # not always: it takes long
        numbers = zip(map(Message.topic, messages), numbers, strict=True)
    return dict(zip(numbers, messages, strict=True)).values()


def partition_of(message: Fetched) -> Partition:
    """Where *message* comes from."""
    return Partition(message.topic() or "", message.partition() or 0)


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


def _whole(message: Fetched) -> bytes:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    return WHOLE + packed_fields(
        message.value(),
        message.key(),
        headers,
        timestamp if kind else None,
        message.partition(),
        message.offset(),
        message.topic(),
    )
