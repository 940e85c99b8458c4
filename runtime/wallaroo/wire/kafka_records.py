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
from dataclasses import dataclass
from typing import Any

_VALUE_ALONE = b"\0"
"""First byte of a record that is nothing but a value."""
_COMPLETE = b"\1"
"""First byte of any other record."""
_HEAD = struct.Struct(">iqqiiI")
"""Partition, offset, timestamp, lengths of key and value, number of headers; -1 stands for None."""
_HEADER = struct.Struct(">Ii")
"""Lengths of name and value of a header."""
_WITH_KEY, _WITH_PARTITION = 2, 3
"""Lengths of the tuples that an encoder may return."""


@dataclass(frozen=True, slots=True)
class KafkaRecord:
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
    """Milliseconds since the Unix epoch; None if it has none, or for the time of writing."""
    partition: int | None = None
    """The partition; None lets the partitioner choose."""
    offset: int | None = None
    """The offset in the partition; ignored in an output."""


def packed(record: KafkaRecord) -> bytes:
    """*record* as bytes."""
    key, value = record.key, record.value
    if value is not None and record == KafkaRecord(value):
        return _VALUE_ALONE + value
    parts = [
        _COMPLETE,
        _HEAD.pack(
            -1 if record.partition is None else record.partition,
            -1 if record.offset is None else record.offset,
            -1 if record.timestamp_ms is None else record.timestamp_ms,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            len(record.headers),
        ),
    ]
    for name, content in record.headers:
        encoded = name.encode()
        parts.append(_HEADER.pack(len(encoded), -1 if content is None else len(content)))
        parts += (encoded, content or b"")
    return b"".join((*parts, key or b"", value or b""))


def unpacked(data: bytes) -> KafkaRecord:
    """The record that `packed` made *data* of."""
    if data[:1] == _VALUE_ALONE:
        return KafkaRecord(data[1:])
    partition, offset, timestamp, key, value, count = _HEAD.unpack_from(data, 1)
    at = 1 + _HEAD.size

    def take(length: int) -> bytes | None:
        nonlocal at
        if length < 0:
            return None
        at += length
        return data[at - length : at]

    headers = []
    for _ in range(count):
        name, content = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        headers.append(((take(name) or b"").decode(), take(content)))
    of_key = take(key)
    return KafkaRecord(
        take(value),
        of_key,
        tuple(headers),
        None if timestamp < 0 else timestamp,
        None if partition < 0 else partition,
        None if offset < 0 else offset,
    )


def record_of(encoded: Any) -> KafkaRecord:
    """The record that an encoder means: a value, `(value, key)`, `(value, key, partition)`.

    Raises:
        TypeError: It is something else.

    Example:
        >>> record_of(("3", "nut"))
        KafkaRecord(value=b'3', key=b'nut', headers=(), timestamp_ms=None, partition=None, \
offset=None)
    """
    if isinstance(encoded, KafkaRecord):
        headers = tuple((name, _bytes(content)) for name, content in encoded.headers)
        return KafkaRecord(
            _bytes(encoded.value),
            _bytes(encoded.key),
            headers,
            encoded.timestamp_ms,
            encoded.partition,
        )
    if not isinstance(encoded, tuple):
        return KafkaRecord(_bytes(encoded))
    if len(encoded) == _WITH_KEY:
        return KafkaRecord(_bytes(encoded[0]), _bytes(encoded[1]))
    if len(encoded) == _WITH_PARTITION:
        return KafkaRecord(_bytes(encoded[0]), _bytes(encoded[1]), partition=encoded[2])
    msg = (
        f"the encoder returned a tuple of {len(encoded)}; expected (value, key) or "
        "(value, key, partition)"
    )
    raise TypeError(msg)


def _bytes(part: Any) -> bytes | None:
    if part is None or type(part) is bytes:
        return part
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part)
    msg = (
        f"the encoder returned {type(part).__name__} for a part of a record; expected bytes, "
        "text or None"
    )
    raise TypeError(msg)
