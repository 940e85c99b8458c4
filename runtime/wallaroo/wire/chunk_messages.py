"""The protocol between the gateway and the processes of a query, as frames.

The first byte says what a frame is. Nothing that the gateway is sent is unpickled.
"""

from __future__ import annotations

import json
import marshal
import struct
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from wallaroo.wire.records import Block, Outputs, Packed, Tally
from wallaroo.wire.task_metrics import StepMetrics, TaskMetrics

HELLO, BEGIN, REPORT, CHANGES, FINISH = b"H", b"B", b"W", b"A", b"F"
HOLD, RELEASE = b"O", b"U"
READY, DAMAGED, NO_ROOM, SAVABLE = b"Y", b"M", b"N", b"S"
"""To the gateway: a process introduces itself; an epoch begins; the results of a chunk; a
request for changes; requests of the driver to end the epoch, to hand out no more chunks, and to
hand them out again; that Spark's shuffle reaches a partition in the epoch after a chunk; what a
process has found to be damaged; which of its disks is full; that Spark can save the state."""
TASK, LEVEL, END, RECORD, DONE, PUBLISHED, FAILED = b"C", b"L", b"E", b"R", b"D", b"P", b"X"
"""From the gateway: a chunk to run; a level of it; the end of the epoch; changes, and their end;
what was published; a failure. `FINISH` says that the epoch has ended, and `SAVABLE` asks the driver
whether it can."""
_HEAD = struct.Struct(">QQQ??")
_NEXT = struct.Struct(">QB?")
_REPORT = struct.Struct(">QBdIIIIIII")
"""The beginning of a report: number, level, seconds to save; the numbers of outputs, of levels, of
pieces for later levels, of steps and of times of arrival; the bytes of all else and of changes."""
_SIZES = struct.Struct(">III")
"""Sink and bytes of lengths and data of outputs; or level, partition and bytes of a piece."""
_LEVEL = struct.Struct(">BI")
"""Level, number of partitions."""
_STEP = struct.Struct(">QQQQdQI")
"""The fields of `StepMetrics`, and the bytes of the step's names."""
_NAMES = struct.Struct(">I")
"""Bytes of the first of two names."""
_ARRIVAL = struct.Struct(">IqQ")
"""Source, nanoseconds, messages."""
_REPORT_END = 1 + _REPORT.size
_SIZES_BYTES, _LEVEL_BYTES = _SIZES.size, _LEVEL.size
_STEP_BYTES, _ARRIVAL_BYTES = _STEP.size, _ARRIVAL.size


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
    wiring: str | None = None
    """That of its application; None if it is the gateway's for certain."""


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
    direct: bool
    """Whether Spark ends an epoch: its messages go on through the gateway, at every level."""
    chunks: Sequence[Block]
    """The messages."""


class NextLevel(NamedTuple):
    """What a later level of a chunk runs: what partitions have sent each other.

    Of a chunk that is direct, it is what every level runs, from the first stage too.
    """

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
    """Messages for later levels; from the reader, if the chunk is direct, those for all levels."""
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
    """For each epoch that has ended, the seconds for which the stream stood still."""


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


def pack_task(task: Task) -> tuple[bytes, ...]:
    """The parts of a frame that asks for *task*."""
    rows = [tuple(chunk) for chunk in task.chunks]
    return TASK, _HEAD.pack(*task[:5]), marshal.dumps(rows, 2)


def task_in(frame: bytes) -> Task:
    """The task in a frame of `pack_task`; from the gateway, which is trusted."""
    rows = marshal.loads(memoryview(frame)[1 + _HEAD.size :])
    number, start, end, isolates, direct = _HEAD.unpack_from(frame, 1)
    return Task(number, start, end, isolates, direct, [Block(*row) for row in rows])


def pack_next(following: NextLevel) -> tuple[bytes, ...]:
    """The parts of a frame that asks for a level of a chunk."""
    sent = {partition: list(blobs) for partition, blobs in following.sent.items()}
    return LEVEL, _NEXT.pack(*following[:3]), marshal.dumps(sent, 2)


def next_in(frame: bytes) -> NextLevel:
    """What is in a frame of `pack_next`; from the gateway, which is trusted."""
    number, level, isolates = _NEXT.unpack_from(frame, 1)
    sent = marshal.loads(memoryview(frame)[1 + _NEXT.size :])
    return NextLevel(number, level, isolates, sent)


def pack_report(report: Report) -> list[bytes]:
    """The parts of a frame with *report*.

    What nearly every report has is packed as numbers, because a gateway reads thousands of reports
    a second; all else is JSON.
    """
    metrics, rest = report.tally.metrics, b""
    if report.tally.has_others:
        others = report.tally.to_json()
        for name in ("steps", "arrivals"):
            others.get("figures", {}).pop(name, None)
        rest = json.dumps(others).encode()
    parts = [
        REPORT,
        _REPORT.pack(
            report.number,
            report.level,
            report.saving_s,
            len(report.outputs),
            len(report.partitions),
            len(report.sent),
            len(metrics.steps),
            len(metrics.arrivals),
            len(rest),
            len(report.changes),
        ),
    ]
    for sink, lengths, data in report.outputs:
        parts += (_SIZES.pack(sink, len(lengths), len(data)), lengths, data)
    for level, partitions in report.partitions.items():
        parts += (_LEVEL.pack(level, len(partitions)), array("I", partitions).tobytes())
    for level, partition, blob in report.sent:
        parts += (_SIZES.pack(level, partition, len(blob)), blob)
    for (pipeline, step), one in metrics.steps.items():
        names, counts = _packed_names(pipeline, step), (one.entered, one.left, one.set_aside)
        parts.append(_STEP.pack(*counts, one.timed, one.seconds, one.unlisted, len(names)))
        parts.append(names)
    for (source, at_ns), messages in metrics.arrivals.items():
        parts.append(_ARRIVAL.pack(source, at_ns, messages))
    return [*parts, rest, report.changes]


def report_in(frame: bytes) -> Report:
    """The report in a frame of `pack_report`.

    Raises:
        ValueError, struct.error, LookupError, TypeError: It is none.
    """
    (
        number,
        level,
        saving_s,
        outputs_count,
        levels_count,
        sent_count,
        steps_count,
        arrivals_count,
        rest_size,
        changes_size,
    ) = _REPORT.unpack_from(frame, 1)
    place = _REPORT_END
    outputs: list[Outputs] = []
    for _ in range(outputs_count):
        sink, lengths_size, data_size = _SIZES.unpack_from(frame, place)
        begin = place + _SIZES_BYTES
        middle = begin + lengths_size
        place = middle + data_size
        outputs.append(Outputs(sink, frame[begin:middle], frame[middle:place]))
    partitions: dict[int, list[int]] = {}
    for _ in range(levels_count):
        of_level, count = _LEVEL.unpack_from(frame, place)
        begin = place + _LEVEL_BYTES
        place = begin + 4 * count
        partitions[of_level] = array("I", frame[begin:place]).tolist()
    sent: list[Packed] = []
    for _ in range(sent_count):
        to_level, partition, size = _SIZES.unpack_from(frame, place)
        begin = place + _SIZES_BYTES
        place = begin + size
        sent.append(Packed(to_level, partition, frame[begin:place]))
    steps: dict[tuple[str, str], StepMetrics] = {}
    for _ in range(steps_count):
        entered, left, aside, timed, seconds, unlisted, size = _STEP.unpack_from(frame, place)
        begin = place + _STEP_BYTES
        place = begin + size
        steps[_names(frame[begin:place])] = StepMetrics(
            entered, left, aside, timed, seconds, unlisted
        )
    arrivals: dict[tuple[int, int], int] = {}
    for _ in range(arrivals_count):
        source, at_ns, messages = _ARRIVAL.unpack_from(frame, place)
        arrivals[source, at_ns] = messages
        place += _ARRIVAL_BYTES
    end = place + rest_size
    if end + changes_size != len(frame):
        msg = f"a report of {len(frame)} bytes should have {end + changes_size}"
        raise ValueError(msg)
    if rest_size:
        tally = Tally.from_json(json.loads(frame[place:end]))
        tally.metrics.steps, tally.metrics.arrivals = steps, arrivals
    else:
        tally = Tally(metrics=TaskMetrics(steps, arrivals))
    return Report(number, outputs, tally, level, partitions, sent, frame[end:], saving_s)


@lru_cache(maxsize=1024)
def _packed_names(pipeline: str, step: str) -> bytes:
    first, second = (name.encode("utf-8", "surrogatepass") for name in (pipeline, step))
    return _NAMES.pack(len(first)) + first + second


@lru_cache(maxsize=1024)
def _names(packed: bytes) -> tuple[str, str]:
    (length,) = _NAMES.unpack_from(packed)
    names = packed[_NAMES.size :]
    first, second = names[:length], names[length:]
    return first.decode("utf-8", "surrogatepass"), second.decode("utf-8", "surrogatepass")
