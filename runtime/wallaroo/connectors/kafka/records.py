r"""Records of Kafka, and how they lie in the journal and the outbox as bytes.

Example:
    >>> record = KafkaRecord(b"3", key=b"nut", headers=(("unit", b"kg"),), partition=1)
    >>> unpacked(packed(record)) == record
    True
    >>> packed(KafkaRecord(b"3"))
    b'\x003'
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from wallaroo.api.durations import time_of
from wallaroo.api.functions import OutputRecord
from wallaroo.connectors.kafka.topic import LEGAL_NAME, is_internal, is_legal
from wallaroo.model.endpoints import Kept
from wallaroo.saved_names import saved_as

VALUE_ALONE = 0
"""First byte of a record that is nothing but the value, which follows it."""
_VALUE_ALONE = bytes((VALUE_ALONE,))
_COMPLETE = b"\1"
"""First byte of any other record."""
_HEAD = struct.Struct(">iqqhiiI")
"""Partition, offset, timestamp, lengths of topic, key and value, number of headers; -1 stands for
None."""
_KEPT = struct.Struct(">12xq2xii")
"""Timestamp and lengths of key and value in the same."""
_HEADER = struct.Struct(">Ii")
"""Lengths of name and value of a header."""
_WITH_KEY, _WITH_PARTITION = 2, 3
"""Lengths of the tuples that an encoder may return."""
_LATEST_MS = 2**63 - 1
"""Latest timestamp; the earliest is 1, as librdkafka takes 0 for the time of writing."""
_LAST_PARTITION = 2**31 - 1
Fields: TypeAlias = tuple[
    bytes | None,
    bytes | None,
    tuple[tuple[str, bytes | None], ...],
    int | None,
    int | None,
    int | None,
    str | None,
]
"""The fields of a `KafkaRecord`, in its order."""


@saved_as("KafkaRecord")
@dataclass(frozen=True, slots=True)
class KafkaRecord(OutputRecord):
    """A record of a topic.

    A source with `envelope=True` passes it to its decoder. An encoder of a `KafkaSinkConfig` can
    return it.
    """

    value: bytes | None
    """The value; None in a tombstone."""
    key: bytes | None = None
    """The key; None if the record has none."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Names and values of the headers, in order; a name can occur more than once."""
    timestamp_ms: int | None = None
    """Milliseconds since the Unix epoch; None if it has none, or for the time of writing. In an
    output at least 1."""
    partition: int | None = None
    """The partition; None lets the partitioner choose."""
    offset: int | None = None
    """The offset in the partition; ignored in an output."""
    topic: str | None = None
    """The topic that it comes from. In an output, the one that it goes to, if that is another one
    than it comes from; None for the topic of the sink."""
    _read_from: str | None = field(default=None, repr=False, compare=False)

    @property
    def timestamp(self) -> datetime | None:
        """The timestamp in UTC, as an event time can be.

        Example:
            >>> KafkaRecord(b"3", timestamp_ms=1_700_000_000_000).timestamp.isoformat()
            '2023-11-14T22:13:20+00:00'
        """
        return None if self.timestamp_ms is None else time_of(self.timestamp_ms * 1_000_000)


def packed(record: KafkaRecord) -> bytes:
    """*record* as bytes."""
    return packed_fields(
        record.value,
        record.key,
        record.headers,
        record.timestamp_ms,
        record.partition,
        record.offset,
        record.topic,
    )


def packed_fields(
    value: bytes | None,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    timestamp_ms: int | None = None,
    partition: int | None = None,
    offset: int | None = None,
    topic: str | None = None,
) -> bytes:
    """The same for a record that is not made, which would take longer than to pack it."""
    alone = key is None and timestamp_ms is None and partition is None and offset is None
    if value is not None and alone and not headers and topic is None:
        return _VALUE_ALONE + value
    name_of_topic = b"" if topic is None else topic.encode()
    head = _HEAD.pack(
        -1 if partition is None else partition,
        -1 if offset is None else offset,
        -1 if timestamp_ms is None else timestamp_ms,
        -1 if topic is None else len(name_of_topic),
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        len(headers),
    )
    if not headers:
        return b"".join((_COMPLETE, head, name_of_topic, key or b"", value or b""))
    parts = [_COMPLETE, head, name_of_topic]
    for name, content in headers:
        encoded = name.encode()
        parts.append(_HEADER.pack(len(encoded), -1 if content is None else len(content)))
        parts += (encoded, content or b"")
    return b"".join((*parts, key or b"", value or b""))


def unpacked(data: bytes) -> KafkaRecord:
    """The record that `packed` made *data* of."""
    fields = unpacked_fields(data)
    offset, topic = fields[-2:]
    return KafkaRecord(*fields, None if offset is None else topic)


def as_read(record: KafkaRecord) -> KafkaRecord:
    """*record* as one that was read: an encoder that returns it does not name its topic.

    Example:
        >>> read = as_read(KafkaRecord(b"3", topic="orders"))
        >>> record_of(replace(read, value=b"4")).topic is None
        True
        >>> record_of(replace(read, topic="others")).topic
        'others'
    """
    return replace(record, _read_from=record.topic)


def unpacked_fields(data: bytes) -> Fields:
    """The arguments of the `KafkaRecord` that `packed` made *data* of."""
    if data[:1] == _VALUE_ALONE:
        return data[1:], None, (), None, None, None, None
    partition, offset, timestamp, topic, key, value, count = _HEAD.unpack_from(data, 1)
    of_topic = 1 + _HEAD.size
    at = of_headers = of_topic + max(topic, 0)
    headers = []
    for _ in range(count):
        name, content = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        end = at + name + max(content, 0)
        headers.append(
            (data[at : at + name].decode(), None if content < 0 else data[at + name : end])
        )
        at = end
    of_value = at + max(key, 0)
    return (
        None if value < 0 else data[of_value : of_value + value],
        None if key < 0 else data[at:of_value],
        tuple(headers),
        None if timestamp < 0 else timestamp,
        None if partition < 0 else partition,
        None if offset < 0 else offset,
        None if topic < 0 else data[of_topic:of_headers].decode(),
    )


def value_in(data: bytes, at: int = 0) -> bytes:
    r"""The value of the record that `packed` made *data* of, from *at* on; empty in a tombstone.

    Example:
        >>> value_in(b"..." + packed(KafkaRecord(b"3", key=b"nut")), 3)
        b'3'
    """
    if data[at] == VALUE_ALONE:
        return data[at + 1 :]
    length = _HEAD.unpack_from(data, at + 1)[-2]
    return data[len(data) - length :] if length > 0 else b""


def value_and_kept(data: bytes, at: int = 0) -> tuple[bytes, Kept | None]:
    r"""The same, and what outputs keep: key and timestamp; None if there is a value alone.

    Example:
        >>> value_and_kept(packed(KafkaRecord(b"3", key=b"nut", timestamp_ms=7000)))
        (b'3', (b'nut', 7000))
    """
    if data[at] == VALUE_ALONE:
        return data[at + 1 :], None
    timestamp, key, value = _KEPT.unpack_from(data, at + 1)
    end = len(data) - value if value > 0 else len(data)
    kept = data[end - key : end] if key >= 0 else None, timestamp if timestamp > 0 else None
    return data[end:], kept


def arguments_of(
    output: bytes,
) -> tuple[str | None, bytes | None, bytes | None, dict[str, Any]]:
    """Topic, value, key and other arguments of `produce` for a packed record."""
    value, key, headers, timestamp_ms, partition, _, topic = unpacked_fields(output)
    options: dict[str, Any] = {}
    if partition is not None:
        options["partition"] = partition
    if timestamp_ms is not None:
        options["timestamp"] = timestamp_ms
    if headers:
        options["headers"] = list(headers)
    return topic, value, key, options


def packed_output(encoded: Any) -> bytes:
    r"""What an encoder means, as `record_of` takes it, as bytes.

    Raises:
        TypeError: It is something else.
        ValueError: See `record_of`.

    Example:
        >>> packed_output("3")
        b'\x003'
    """
    if type(encoded) is bytes:
        return _VALUE_ALONE + encoded
    if type(encoded) is tuple and len(encoded) == _WITH_KEY:
        return packed_fields(_bytes(encoded[0]), _bytes(encoded[1]))
    return packed(record_of(encoded))


def packed_like(encoded: Any, key: bytes | None, timestamp_ms: int | None) -> bytes:
    r"""What an encoder means, as bytes, with *key* and *timestamp_ms* where it says nothing.

    A tuple always says which key there is, even if it is None.

    Raises:
        TypeError: It is something else.
        ValueError: See `record_of`.

    Example:
        >>> unpacked(packed_like("3", b"nut", 7000)).key
        b'nut'
        >>> unpacked(packed_like(("3", None), b"nut", 7000)).key is None
        True
    """
    if type(encoded) is bytes:  # the same as `packed_fields`, in half the time
        length = -1 if key is None else len(key)
        head = _HEAD.pack(-1, -1, timestamp_ms or -1, -1, length, len(encoded), 0)
        return _COMPLETE + head + (key or b"") + encoded
    record = record_of(encoded)
    if isinstance(encoded, tuple) or record.key is not None:
        key = record.key
    if record.timestamp_ms is not None:
        timestamp_ms = record.timestamp_ms
    return packed(replace(record, key=key, timestamp_ms=timestamp_ms))


def record_of(encoded: Any) -> KafkaRecord:
    """The record that an encoder means: a value, `(value, key)`, `(value, key, partition)`.

    Raises:
        TypeError: It is something else.
        ValueError: A timestamp, a topic, a partition or the name of a header is none.

    Example:
        >>> record_of(("3", "nut"))
        KafkaRecord(value=b'3', key=b'nut', headers=(), timestamp_ms=None, partition=None, \
offset=None, topic=None)
    """
    if isinstance(encoded, KafkaRecord):
        return KafkaRecord(
            _bytes(encoded.value),
            _bytes(encoded.key),
            tuple(map(_header, encoded.headers)),
            _number("timestamp_ms", encoded.timestamp_ms, 1, _LATEST_MS),
            _number("partition", encoded.partition, 0, _LAST_PARTITION),
            topic=None if encoded.topic == encoded._read_from else _topic(encoded.topic),  # noqa: SLF001
        )
    if not isinstance(encoded, tuple):
        return KafkaRecord(_bytes(encoded))
    if len(encoded) == _WITH_KEY:
        return KafkaRecord(_bytes(encoded[0]), _bytes(encoded[1]))
    if len(encoded) == _WITH_PARTITION:
        partition = _number("partition", encoded[2], 0, _LAST_PARTITION)
        return KafkaRecord(_bytes(encoded[0]), _bytes(encoded[1]), partition=partition)
    msg = (
        f"the encoder returned a tuple of {len(encoded)}; expected (value, key) or "
        "(value, key, partition)"
    )
    raise TypeError(msg)


def _number(name: str, value: Any, least: int, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{name} of a record is {value!r:.100}; expected an int or None"
        raise TypeError(msg)
    if not least <= value <= most:
        msg = f"{name} of a record is {value}; expected {least} to {most}, or None"
        raise ValueError(msg)
    return value


def _topic(name: Any) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        msg = f"topic of a record is {name!r:.100}; expected a str or None"
        raise TypeError(msg)
    if is_internal(name):
        msg = f"topic of a record is {name!r}, which belongs to the brokers; expected another"
        raise ValueError(msg)
    if is_legal(name):
        return name
    msg = f"topic of a record is {name!r:.100}; expected {LEGAL_NAME}, or None"
    raise ValueError(msg)


def _header(header: Any) -> tuple[str, bytes | None]:
    match header:
        case (str(name), content):  # which a text of two letters is not
            pass
        case _:
            msg = f"a record has the header {header!r:.100}; expected a pair of name and value"
            raise TypeError(msg)
    if "\0" in name:
        msg = f"a header of a record has the name {name!r:.100}; expected no NUL character"
        raise ValueError(msg)
    return name, _bytes(content)


def _bytes(part: Any) -> bytes | None:
    if part is None or type(part) is bytes:
        return part
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part)
    msg = (
        f"the encoder returned {type(part).__name__} for a part of a record; expected bytes, "
        "a str or None"
    )
    raise TypeError(msg)
