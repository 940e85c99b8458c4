"""Processor time of the first stage and of partitions by messages of a chunk, without Spark."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import streams
from benchmarks.figures import Figure, Settings
from benchmarks.loads import APPS
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.frames import given_out
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.partition import Partition
from wallaroo.engine.realtime.reader import Reader
from wallaroo.engine.spark.slots import slots_for
from wallaroo.loading.loader import ApplicationRef
from wallaroo.wire.chunk_messages import Task, pack_task, report_in
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Block

SIZES = (1, 10, 100, 1_000, 3_000)
"""Messages of a chunk."""
_MESSAGES = 12_000
"""Messages to measure for each size, or fewer."""
_FEWEST, _MOST = 8, 400
"""Chunks to measure for each size."""
_SYMBOLS = streams.symbols()
_INPUTS = {"market_spread": "127.0.0.1:0,127.0.0.1:0", "word_count": "127.0.0.1:0"}

_READABLE, _SILENT = os.open(os.devnull, os.O_RDONLY), os.eventfd(0)
"""File descriptors of which `poll` says that they can be read, and that they cannot."""

Blocks = Callable[[int], Sequence[tuple[int, bytes, int]]]
"""From the messages of a chunk to its blocks: source, framed messages and their number."""


class Taken(NamedTuple):
    """Median processor time for a chunk, in microseconds."""

    first: float
    """In the first stage."""
    partitions: float
    """In all partitions together."""
    reports: float
    """To read all reports, as the gateway does."""


class _Frames:
    """Stands for a stream socket: gives frames, takes frames, and measures the time between.

    Args:
        given: The frames that it gives.
    """

    def __init__(self, given: Sequence[bytes] = ()) -> None:
        self._given = iter(given)
        self._descriptor = _READABLE if given else _SILENT
        self.taken_s: list[float] = []
        """Processor time for each of *given*."""
        self.sent: list[list[bytes]] = [[]]
        """The frames that were sent before the first of *given*, and after each of them."""
        self._began: float | None = None
        self._rest = b""

    def recv(self, size: int, _flags: int = 0, /) -> bytes:
        if not self._rest:
            if self._began is not None:
                self.taken_s.append(time.thread_time() - self._began)
            frame = next(self._given, b"")
            self._rest = len(frame).to_bytes(4, "big") + frame if frame else b""
            self.sent.append([])
            self._began = time.thread_time()
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def sendall(self, data: bytes, /) -> None:
        self.sent[-1].append(data[4:])

    def settimeout(self, seconds: float | None, /) -> None:
        raise NotImplementedError

    def fileno(self) -> int:
        return self._descriptor

    def shutdown(self, how: int, /) -> None:
        pass

    def close(self) -> None:
        pass


class _Behind(_Frames):
    """Takes what is sent while another one gives frames; gives one that begins an epoch."""

    def __init__(self, ahead: _Frames) -> None:
        super().__init__([b"{}"])
        self._ahead = ahead
        self.places: list[int] = []
        """For each frame that was sent, the number of those that the other had given."""

    def sendall(self, data: bytes, /) -> None:
        super().sendall(data)
        self.places.append(len(self._ahead.sent) - 1)


def orders(rng: random.Random) -> Blocks:
    """Orders of Market Spread of random symbols, all of them rejected."""
    return lambda count: [(0, _orders(rng, count), count)]


def orders_and_quotes(rng: random.Random) -> Blocks:
    """As many quotes, of which half lead to rejections, and orders of random symbols."""
    quotes = streams.quotes_of(_SYMBOLS)

    def blocks(count: int) -> Sequence[tuple[int, bytes, int]]:
        half = (count + 1) // 2
        quoted = 1, b"".join(rng.choices(quotes, k=half)), half
        return [quoted, (0, _orders(rng, count - half), count - half)] if count > 1 else [quoted]

    return blocks


def lines(rng: random.Random) -> Blocks:
    """Lines of Word Count, of ten words."""
    framed, _ = streams.lines(5_000, rng.randrange(1 << 30))
    single = streams.parts(framed, 5_000)
    return lambda count: [(0, b"".join(rng.choices(single, k=count)), count)]


def _orders(rng: random.Random, count: int) -> bytes:
    return streams.orders(_SYMBOLS, count, rng.randrange(1 << 30))[0]


def measured(app: str, blocks: Blocks, size: int, workers: int) -> Taken:
    """What chunks of *size* messages take."""
    application = ApplicationRef(str(APPS / app), ("--in", _INPUTS[app], "--out", "127.0.0.1:9"))
    count = max(_FEWEST, min(_MOST, _MESSAGES // size))
    warm = count // 3 + 1
    made = [_first_quotes()] if app == "market_spread" else []
    made += [blocks(size) for _ in range(count + warm)]
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "metadata").write_text("{}")
        job = Job(
            application, "", 0, 0, Path(directory), workers, 8 * workers, slots_for(8 * workers), 0
        )
        with _without_collector():
            return _run(job, job.program(), [*_tasks(made)], count)


def _first_quotes() -> Sequence[tuple[int, bytes, int]]:
    """A quote of each symbol that lets orders be rejected."""
    quotes = [streams.MARKET.pack(42, 2, s, streams.TIME, 100.0, 101.0) for s in _SYMBOLS]
    return [(1, b"".join(quotes), len(quotes))]


def _tasks(made: Sequence[Sequence[tuple[int, bytes, int]]]) -> Iterator[bytes]:
    start = 0
    for number, blocks in enumerate(made, 1):
        end, of_task = start, list[Block]()
        for source, data, count in blocks:
            of_task.append(Block(end, count, source, time.time_ns(), data))
            end += count
        yield b"".join(pack_task(Task(number, start, end, False, False, of_task)))
        start = end


def _run(job: Job, program: Program, tasks: Sequence[bytes], count: int) -> Taken:
    """Run *tasks*, of which the last *count* are measured."""
    gateway = _Frames(tasks)
    java = _Behind(gateway)
    with contextlib.suppress(EOFError):  # raised where no more tasks come
        Reader(job, program, FrameSocket(gateway), FrameSocket(java)).run()
    first = _middle(gateway.taken_s, count)
    reports = [sent[-1:] for sent in gateway.sent[1 : len(tasks) + 1]]
    partitions = [0.0] * len(tasks)
    sent = zip(java.places, java.sent[-1], strict=True)
    frames_to = [
        (place - 1, *given) for place, frame in sent if place for given in given_out(frame)
    ]
    for number in range(job.partitions):
        own = [(place, frame) for place, partition, frame in frames_to if partition == number]
        of_partition, from_java = _Frames(), _Frames([frame for _, frame in own])
        Partition(job, program, number, FrameSocket(of_partition), FrameSocket(from_java)).run()
        for (place, _), taken_s in zip(own, from_java.taken_s, strict=True):
            partitions[place] += taken_s
        for report in of_partition.sent[0]:
            reports[report_in(report).number - 1].append(report)
    return Taken(first, _middle(partitions, count), _middle(_reading(reports), count))


def _reading(reports: Sequence[Sequence[bytes]]) -> list[float]:
    taken_s: list[float] = []
    for of_chunk in reports:
        began = time.thread_time()
        for frame in of_chunk:
            report_in(frame)
        taken_s.append(time.thread_time() - began)
    return taken_s


def _middle(taken_s: Sequence[float], count: int) -> float:
    """The median of the last *count*, in microseconds."""
    return 1e6 * statistics.median(taken_s[-count:])


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """As in the processes of a query, which collect garbage between chunks."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def stages(settings: Settings, scratch: Path) -> Iterator[Figure]:  # noqa: ARG001 - as all groups
    """Processor time of the stages for a message, by messages of a chunk."""
    for what, app, make in (
        ("Market Spread, orders", "market_spread", orders),
        ("Market Spread, orders and quotes", "market_spread", orders_and_quotes),
        ("Word Count", "word_count", lines),
    ):
        for size in SIZES:
            turns = [
                measured(app, make(random.Random(seed)), size, settings.workers)
                for seed in range(settings.passes + 1)
            ][1:]
            sums = [(one.first + one.partitions) / size for one in turns]
            best = turns[sums.index(min(sums))]
            yield Figure(
                f"stages of {what}, chunks of {size:,}",
                min(sums),
                "µs a message",
                min(sums),
                max(sums),
                {
                    "µs of a chunk in the first stage": best.first,
                    "in partitions": best.partitions,
                    "reading its reports": best.reports,
                },
            )
