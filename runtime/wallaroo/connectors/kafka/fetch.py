"""Records of one fetch, in the form that the journal takes.

Each step handles all records at once: a loop over them takes longer than reading them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from wallaroo.connectors.kafka.records import packed_fields

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    Fetched: TypeAlias = Message[Any, Any]

_LENGTH = struct.Struct(">I")


class TooLong(Exception):
    """A record is longer than messages may be."""


@dataclass(frozen=True)
class Fetch:
    """Records up to the first that cannot be taken."""

    count: int
    """Records that are taken."""
    data: bytes
    """These records, as the journal has them."""
    offsets: Mapping[int, int]
    """Offset of the next record, by partition of which something came."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Where partitions end, by those that were read up to there."""
    problem: KafkaError | TooLong | None = None
    """Why the rest is not taken; None if all is."""


def fetch_of(messages: Sequence[Fetched], limit: int, *, envelope: bool) -> Fetch:
    """What the journal is to have of *messages*.

    Args:
        messages: What a consumer has returned.
        limit: Most bytes of a message.
        envelope: Whether a message is the record with key, headers and place, not its value.
    """
    from confluent_kafka import Message

    problem: KafkaError | TooLong | None = None
    ends, records = {}, messages
    if any(map(Message.error, messages)):
        for index, message in enumerate(messages):
            if (error := message.error()) is not None and error.name() != "_PARTITION_EOF":
                problem, messages = error, messages[:index]  # what came before it counts
                break
        records = [message for message in messages if message.error() is None]
        ends = {_partition(at): at.offset() or 0 for at in messages if at.error() is not None}
    payloads = list(map(_enveloped, records)) if envelope else _values(records)
    lengths = list(map(len, payloads))
    if lengths and max(lengths) > limit:
        first = next(at for at, length in enumerate(lengths) if length > limit)
        record = records[first]
        problem = TooLong(
            f"record {record.offset()} of partition {record.partition()} has {lengths[first]} "
            f"bytes; the limit is {limit}: raise --max-frame"
        )
        messages = messages[: messages.index(record)]
        payloads, lengths = payloads[:first], lengths[:first]
    last = dict(zip(map(Message.partition, messages), messages, strict=True))
    offsets = {
        partition or 0: (message.offset() or 0) + (message.error() is None)
        for partition, message in last.items()
    }
    return Fetch(len(payloads), _framed(payloads, lengths), offsets, ends, problem)


def _partition(message: Fetched) -> int:
    return message.partition() or 0


def _values(records: Sequence[Fetched]) -> Sequence[bytes]:
    from confluent_kafka import Message

    values: list[Any] = list(map(Message.value, records))
    return [value or b"" for value in values] if None in values else values


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
