"""The protocol between the gateway and the processes of a query, as frames.

The first byte says what a frame is. Nothing that the gateway is sent is unpickled.
"""

from __future__ import annotations

import json
import marshal
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from wallaroo.wire.records import Block, Outputs, Packed, Tally

HELLO, BEGIN, REPORT, CHANGES, FINISH = b"H", b"B", b"W", b"A", b"F"
HOLD, RELEASE = b"O", b"U"
DAMAGED = b"M"
"""To the gateway: a process introduces itself; an epoch begins; the results of a chunk; a
request for changes; requests of the driver to end the epoch, to hand out no more chunks, and to
hand them out again; what a process has found to be damaged."""
TASK, LEVEL, END, RECORD, DONE, PUBLISHED, FAILED = b"C", b"L", b"E", b"R", b"D", b"P", b"X"
"""From the gateway: a chunk to run; its next level; the end of the epoch; changes, and their end;
what was published; a failure. `FINISH` says that the epoch has ended."""
_HEAD = struct.Struct(">QQQ?")
_NEXT = struct.Struct(">QB?")
_REPORT = struct.Struct(">QI")


class CheckpointPosition(NamedTuple):
    """How far a query is, as Spark keeps it between two epochs."""

    offset: int = 0
    """Offset after the last message."""
    chunk: int = 0
    """Number of the last chunk."""
    opening: str | None = None
    """Opening of the journal under which it was planned; None for none."""
    imported: str | None = None
    """Name of the import that the epoch before was; None if it was none."""

    def to_json(self) -> str:
        """As Spark keeps it."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str | bytes) -> CheckpointPosition:
        """What `to_json` wrote."""
        return cls(**json.loads(text))


class Hello(NamedTuple):
    """Who connects to the gateway."""

    claim: int
    """Number of the driver's lease."""
    attempt: int
    """Number of the query among those that the driver has started."""
    role: int
    """Number of a partition, or one of `READER` and `DRIVER`."""
    partitions: int
    """How many partitions there are."""


READER, DRIVER = -1, -2
"""In the place of a partition's number."""


class Task(NamedTuple):
    """A chunk of messages to run."""

    number: int
    """Number of the chunk: without gaps since the state directory was new."""
    start: int
    """Offset of its first message."""
    end: int
    """Offset after its last message."""
    isolates: bool
    """Whether an attempt before failed, perhaps because of one of its messages."""
    chunks: Sequence[Block]
    """The messages."""


class NextLevel(NamedTuple):
    """What partitions have sent each other, for a later level of a chunk."""

    number: int
    """Number of the chunk."""
    level: int
    """The level."""
    isolates: bool
    """As in `Task`."""
    sent: Mapping[int, Sequence[bytes]]
    """Packed messages by partition."""


class Report(NamedTuple):
    """What a process made of a chunk, or a partition of a level of it."""

    number: int
    """Number of the chunk."""
    outputs: Sequence[Outputs]
    """Its outputs."""
    tally: Tally
    """What it has to report besides."""
    level: int = 0
    """The level; 0 is the first stage."""
    partitions: Mapping[int, Sequence[int]] = MappingProxyType({})
    """From the reader: the partitions that will report as well, by level."""
    sent: Sequence[Packed] = ()
    """From a partition: messages for later levels."""
    changes: bytes = b""
    """From a partition: the record of what changed; empty if nothing did."""
    saving_s: float = 0.0
    """Seconds that it took to make that record."""


class Publication(NamedTuple):
    """What was published in one transaction, and how long that took."""

    last: int
    """Number of its last chunk."""
    chunks: int
    """How many chunks it has."""
    messages: int
    """How many messages these have."""
    started: float
    """Wall clock when its first chunk was handed out, in seconds since the epoch."""
    run_s: float
    """Seconds from then until the transaction began: all processes had reported."""
    commit_s: float
    """Seconds of the transaction."""


class News(NamedTuple):
    """What the gateway reports to the driver, at most every 100 ms."""

    tally: Tally
    """What processes have reported of published chunks."""
    publications: Sequence[Publication] = ()
    """How these were published."""
    epochs: Sequence[float] = ()
    """For each epoch that has ended, the seconds for which no chunk was handed out."""


def pack_json(kind: bytes, value: Any) -> bytes:
    """A frame with a value as JSON."""
    return kind + json.dumps(value).encode()


def json_in(frame: bytes) -> Any:
    """The value in a frame of `pack_json`."""
    return json.loads(frame[1:])


def pack_news(news: News) -> bytes:
    """A frame with *news*."""
    return pack_json(PUBLISHED, [news.tally.to_json(), news.publications, news.epochs])


def news_in(frame: bytes) -> News:
    """The news in a frame of `pack_news`."""
    tally, publications, epochs = json_in(frame)
    return News(Tally.from_json(tally), [Publication(*one) for one in publications], epochs)


def pack_task(task: Task) -> bytes:
    """A frame that asks for *task*."""
    rows = [tuple(chunk) for chunk in task.chunks]
    return TASK + _HEAD.pack(*task[:4]) + marshal.dumps(rows, 2)


def task_in(frame: bytes) -> Task:
    """The task in a frame of `pack_task`; from the gateway, which is trusted."""
    rows = marshal.loads(memoryview(frame)[1 + _HEAD.size :])
    number, start, end, isolates = _HEAD.unpack_from(frame, 1)
    return Task(number, start, end, isolates, [Block(*row) for row in rows])


def pack_next(following: NextLevel) -> bytes:
    """A frame that asks for the next level of a chunk."""
    sent = {partition: list(blobs) for partition, blobs in following.sent.items()}
    return LEVEL + _NEXT.pack(*following[:3]) + marshal.dumps(sent, 2)


def next_in(frame: bytes) -> NextLevel:
    """What is in a frame of `pack_next`; from the gateway, which is trusted."""
    number, level, isolates = _NEXT.unpack_from(frame, 1)
    sent = marshal.loads(memoryview(frame)[1 + _NEXT.size :])
    return NextLevel(number, level, isolates, sent)


def pack_report(report: Report) -> list[bytes]:
    """The parts of a frame with *report*."""
    fields = {
        "outputs": [[sink, len(lengths), len(data)] for sink, lengths, data in report.outputs],
        "tally": report.tally.to_json() if report.tally else None,
        "level": report.level,
        "partitions": list(report.partitions.items()),
        "sent": [[level, partition, len(blob)] for level, partition, blob in report.sent],
        "changes": len(report.changes),
        "saving_s": report.saving_s,
    }
    header = json.dumps(fields).encode()
    parts = [REPORT + _REPORT.pack(report.number, len(header)), header]
    for _, lengths, data in report.outputs:
        parts += [lengths, data]
    return [*parts, *(blob for _, _, blob in report.sent), report.changes]


def report_in(frame: bytes) -> Report:
    """The report in a frame of `pack_report`."""
    number, length = _REPORT.unpack_from(frame, 1)
    place = 1 + _REPORT.size
    fields = json.loads(frame[place : place + length])
    place += length
    outputs: list[Outputs] = []
    for sink, lengths_size, data_size in fields["outputs"]:
        middle, end = place + lengths_size, place + lengths_size + data_size
        outputs.append(Outputs(sink, frame[place:middle], frame[middle:end]))
        place = end
    sent: list[Packed] = []
    for level, partition, size in fields["sent"]:
        sent.append(Packed(level, partition, frame[place : place + size]))
        place += size
    return Report(
        number,
        outputs,
        Tally() if fields["tally"] is None else Tally.from_json(fields["tally"]),
        fields["level"],
        dict(fields["partitions"]),
        sent,
        frame[place : place + fields["changes"]],
        fields["saving_s"],
    )
