"""Frames between a process that runs user code and Spark's Java.

A frame is

* to Java from the first stage: a slot (a big-endian integer of 32 bits) and what goes to the
  partition that the slot hashes to; slot -1 ends the epoch, and has its position as JSON;
* from Java to the first stage: the position from which an epoch begins, as JSON;
* to a partition, by its first byte: `m` frames for processes on its machine, each behind the number
  of its partition and its length, which Java hands out; `c` a chunk, `p` the beginning of the
  content of the next chunk, `f` the name of a file that has one; `y` the number of the chunk after
  which an epoch begins, which only shows that frames arrive; `a` the position from which changes
  apply, `o` a bucket to open, followed by the head of its log (`h`), its rows (`r`) and their end
  (`d`), `e` a bucket whose changes are to be saved, and the last chunk of the epoch; the partition
  answers with the head that its log is to have, and with a frame for each row that is to be added.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from wallaroo.dataflow.bucket_logs import Head
from wallaroo.dataflow.log_rows import BASE, LogRow, count_rows, rows_of
from wallaroo.wire.frame_socket import FrameSocket

_SLOT = struct.Struct(">i")
_CHUNK = struct.Struct(">QB?")
_BUCKET = struct.Struct(">IQ")
_LOG = struct.Struct(">qqq")
_ADDED = struct.Struct(">?I")
_PLACE = struct.Struct(">q")
_FOR = struct.Struct(">II")
MANY, CHUNK, PART, FILE, PROBE = b"m", b"c", b"p", b"f", b"y"
APPLY, OPEN, SAVE = b"a", b"o", b"e"
"""First bytes of frames to a partition."""
HEAD, ROW, DONE = b"h", b"r", b"d"
"""First bytes of frames with the log of a bucket."""
END_OF_EPOCH = -1
"""In the place of a slot."""
MOST_BYTES = 256 * 1024
"""Bytes of a chunk in one frame: Java holds each frame several times."""


def pack_slot(slot: int) -> bytes:
    """How a frame to Java begins."""
    return _SLOT.pack(slot)


def pack_for(partition: int, *parts: bytes) -> bytes:
    """A frame of *parts* for *partition*, in a frame `MANY`."""
    return b"".join((_FOR.pack(partition, sum(map(len, parts))), *parts))


def given_out(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """The partitions and their frames in a *frame* to Java, as Java gives them out.

    Example:
        >>> list(given_out(b"".join((pack_slot(7), MANY, pack_for(1, CHUNK), pack_for(0, PART)))))
        [(1, b'c'), (0, b'p')]
    """
    place = _SLOT.size + len(MANY)
    while place < len(frame):
        partition, size = _FOR.unpack_from(frame, place)
        place += _FOR.size + size
        yield partition, frame[place - size : place]


def pack_bucket(kind: bytes, bucket: int, chunk: int = 0) -> bytes:
    """A frame that opens *bucket*, or saves it at the end of *chunk*."""
    return kind + _BUCKET.pack(bucket, chunk)


def cut(content: bytes) -> tuple[list[bytes], bytes]:
    """*content* for frames: the parts that go ahead, and the last one.

    Example:
        >>> ahead, last = cut(b"x" * 600_000)
        >>> [len(part) for part in ahead], len(last), cut(b"")
        ([262144, 262144], 75712, ([], b''))
    """
    starts = range(0, len(content), MOST_BYTES)
    parts = [content[start : start + MOST_BYTES] for start in starts] or [b""]
    return parts[:-1], parts[-1]


def bucket_in(frame: bytes) -> int:
    """The bucket in a frame of `pack_bucket`."""
    return int(_BUCKET.unpack_from(frame, 1)[0])


def chunk_of(frame: bytes) -> int:
    """The chunk in a frame of `pack_bucket`."""
    return int(_BUCKET.unpack_from(frame, 1)[1])


def pack_chunk(kind: bytes, number: int, level: int, *, isolates: bool) -> bytes:
    """How a frame with a level of a chunk begins, or with the name of its file."""
    return kind + _CHUNK.pack(number, level, isolates)


def chunk_in(frame: bytes) -> tuple[int, int, bool, memoryview]:
    """Number, level, whether it is isolated, and the rest of a frame of `pack_chunk`."""
    number, level, isolates = _CHUNK.unpack_from(frame, 1)
    return number, level, isolates, memoryview(frame)[1 + _CHUNK.size :]


def head_in(frame: bytes) -> Head:
    """The head of a log in a frame `HEAD`.

    Raises:
        DamagedFile: It is not as it was written.
    """
    count, base_bytes, tail_bytes = _LOG.unpack_from(frame, 1)
    return Head.from_text(frame[1 + _LOG.size :].decode(), count, base_bytes, tail_bytes)


def row_in(frame: bytes) -> LogRow:
    """The row of a log in a frame `ROW`."""
    (place,) = _PLACE.unpack_from(frame, 1)
    return LogRow(place, frame[1 + _PLACE.size :])


class Appended(NamedTuple):
    """What the log of a bucket is to have."""

    head: Head
    """Its head from now on."""
    record: bytes
    """A record more, the last that the head counts; empty if only the head changes."""
    base: bytes | None = None
    """A record of all entities, which takes the place of all before."""


def send_appended(java: FrameSocket, appended: Appended) -> None:
    """Answer `SAVE`.

    Raises:
        OSError: The other side is gone.
    """
    head, record, base = appended
    count = count_rows(record) + count_rows(base or b"")
    sizes = _LOG.pack(head.count, head.base_bytes, head.tail_bytes)
    java.send(_ADDED.pack(base is not None, count), sizes, head.text().encode())
    for row in (*rows_of(BASE, base or b""), *rows_of(head.count - 1, record)):
        java.send(_PLACE.pack(row.place), row.content)
