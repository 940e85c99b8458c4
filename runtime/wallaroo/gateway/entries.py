"""Entries of the gateway's log: what records say, and their bytes.

Messages and outputs are records of their own, so that damage to one is damage to nothing else. A
publication makes the outputs before it valid: all of it is there, or nothing is.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.wire.chunk_messages import Report, pack_report, report_in
from wallaroo.wire.records import Block, Outputs, Tally

MESSAGES, OUTPUTS, PUBLISHED, DELIVERED, NOTED, CARRIED = range(16, 22)
"""Kinds of records: accepted messages; outputs of the next publication; chunks that are published;
outputs that a receiver has; something else that changes the tables; outputs that were moved here
from a segment of which nothing else was needed."""
_MESSAGES = struct.Struct("<hIQQI")
_OUTPUTS = struct.Struct("<IQII")
_PUBLISHED = struct.Struct("<QQQQI??II")
_DELIVERED = struct.Struct("<IQQ")


class Messages(NamedTuple):
    """What a record of messages says, but for their bytes."""

    source: int
    messages: int
    """How many there are."""
    first: int
    arrived_ns: int
    size: int
    """Bytes of the messages."""
    more: Mapping[str, Any]
    """What is accepted with them: `reached`, `stream` and `requests`; and `held`, see `Block`."""

    @property
    def end(self) -> int:
        """Offset after the last of them."""
        return self.first + self.messages


def pack_messages(
    entry: Messages, data: bytes | bytearray
) -> tuple[bytes, bytes, bytes | bytearray]:
    """The parts of a record of messages."""
    more = json.dumps(entry.more).encode() if entry.more else b""
    return _MESSAGES.pack(*entry[:4], len(more)), more, data


def messages_in(payload: bytes | memoryview) -> Messages:
    r"""What the record of messages with this *payload* says.

    Example:
        >>> entry = Messages(0, 2, 7, 10**18, 4, {"reached": ["lines", "4"]})
        >>> messages_in(b"".join(pack_messages(entry, b"a\nb\n"))) == entry
        True
    """
    source, count, first, arrived_ns, length = _MESSAGES.unpack_from(payload)
    end = _MESSAGES.size + length
    more = json.loads(bytes(payload[_MESSAGES.size : end])) if length else {}
    return Messages(source, count, first, arrived_ns, len(payload) - end, more)


def block_in(payload: bytes | memoryview) -> Block:
    """The messages in a record with this *payload*."""
    entry = messages_in(payload)
    data = bytes(payload[len(payload) - entry.size :])
    return block_of(entry, data)


def block_of(entry: Messages, data: bytes) -> Block:
    """The messages of *entry*, which are *data*."""
    held = tuple(map(tuple, entry.more.get("held", ())))
    return Block(entry.first, entry.messages, entry.source, entry.arrived_ns, data, held)


class Piece(NamedTuple):
    """What a record of outputs says, but for their bytes."""

    sink: int
    number: int
    """Number of the first output among all that the sink ever had, from 1 on."""
    outputs: int
    """How many there are."""
    size: int
    """Bytes of the outputs."""

    @property
    def last(self) -> int:
        """Number of the last output."""
        return self.number + self.outputs - 1


def pack_outputs(
    number: int, outputs: Outputs, *, kept: bool = False
) -> tuple[bytes, bytes, bytes]:
    """The parts of a record of *outputs*, the first of which has this *number*."""
    head = _OUTPUTS.pack(outputs.sink, number, len(outputs.lengths), kept)
    return head, outputs.lengths, outputs.data


def piece_in(payload: bytes | memoryview) -> tuple[Piece, bool]:
    """What the record of outputs with this *payload* says, and whether they are delivered."""
    sink, number, lengths, kept = _OUTPUTS.unpack_from(payload)
    size = len(payload) - _OUTPUTS.size - lengths
    return Piece(sink, number, lengths // 4, size), bool(kept)


def outputs_in(payload: bytes | memoryview, sink: int) -> Outputs:
    """The outputs for *sink* in a record with this *payload*."""
    _, _, lengths, _ = _OUTPUTS.unpack_from(payload)
    middle = _OUTPUTS.size + lengths
    return Outputs(sink, bytes(payload[_OUTPUTS.size : middle]), bytes(payload[middle:]))


class Published(NamedTuple):
    """What a publication says."""

    chunk: int
    """Number of its last chunk."""
    end: int
    """Offset after the last message of that."""
    before: int
    """Number of the last chunk that was published before."""
    changed: int
    """Number of the last chunk of the last publication before that has changes; 0 if none has."""
    tally: Tally
    """What the processes have reported, without letters."""
    more: Mapping[str, Any]
    """The `query`, when it was published (`at`), the outputs of each sink (`outputs`), the sizes of
    changes (`changes`: chunk, partition, bytes), dead `letters`, and, of several chunks, offsets at
    their `ends`."""


def pack_published(entry: Published, changes: Sequence[bytes]) -> tuple[bytes, ...]:
    """The parts of the record of a publication."""
    more = json.dumps(entry.more).encode()
    tally = pack_report(Report(entry.chunk, (), entry.tally))
    head = _PUBLISHED.pack(
        entry.chunk,
        entry.end,
        entry.before,
        entry.changed,
        query_sum(entry.more["query"]),
        bool(changes),
        bool(entry.more["letters"]),
        len(more),
        sum(map(len, tally)),
    )
    return head, more, *tally, *changes


def query_sum(query: str) -> int:
    """A number that stands for the name of a query."""
    return zlib.crc32(query.encode())


class PublishedHead(NamedTuple):
    """What a publication says at its beginning."""

    chunk: int
    end: int
    before: int
    changed: int
    query: int
    """`query_sum` of its query."""
    has_changes: bool
    has_letters: bool
    more_size: int
    tally_size: int

    @property
    def changes_at(self) -> int:
        """Where the changes begin in the payload."""
        return _PUBLISHED.size + self.more_size + self.tally_size


def published_head(payload: bytes | memoryview) -> PublishedHead:
    """The beginning of the publication with this *payload*, which is quickly read."""
    return PublishedHead(*_PUBLISHED.unpack_from(payload))


def published_in(payload: bytes | memoryview) -> Published:
    """What the publication with this *payload* says."""
    head = published_head(payload)
    middle = _PUBLISHED.size + head.more_size
    more = json.loads(bytes(payload[_PUBLISHED.size : middle]))
    tally = report_in(bytes(payload[middle : head.changes_at])).tally
    return Published(*head[:4], tally, more)


def without_changes(payload: bytes | memoryview) -> bytes:
    """What `published_in` reads of the publication with this *payload*."""
    return bytes(payload[: published_head(payload).changes_at])


def changes_in(payload: bytes | memoryview) -> list[tuple[int, int, bytes]]:
    """The changes in a publication with this *payload*: chunk, partition and record of each."""
    place, found = published_head(payload).changes_at, []
    for chunk, partition, size in published_in(payload).more["changes"]:
        found.append((chunk, partition, bytes(payload[place : place + size])))
        place += size
    return found


class Delivered(NamedTuple):
    """That a receiver has outputs."""

    sink: int
    number: int
    """Number of the last one that it has."""
    keep_bytes: int = 0
    """Bytes of delivered outputs that are kept, the newest ones."""


def pack_delivered(entry: Delivered) -> bytes:
    """The payload of a record of a delivery."""
    return _DELIVERED.pack(*entry)


def delivered_in(payload: bytes | memoryview) -> Delivered:
    """What the record of a delivery with this *payload* says."""
    return Delivered(*_DELIVERED.unpack(payload))


def pack_noted(**values: Any) -> bytes:
    """The payload of a record that changes the tables in some other way."""
    return json.dumps(values).encode()


RESUMED = "resumed"
"""Counter of the records for which `is_resumption` is true; the tables have it."""


def is_resumption(values: Mapping[str, Any]) -> bool:
    """Whether what was noted gives other numbers to messages or outputs that were there before."""
    return "moved" in values or "identity" in values


def noted_in(payload: bytes | memoryview) -> dict[str, Any]:
    """What `pack_noted` packed."""
    found: dict[str, Any] = json.loads(bytes(payload))
    return found
