"""A real-time query in one process: the gateway's side, both stages, a stand-in for Spark."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.gateway.store_loop import StoreLoop
from tests.helpers import framing_of, wait_until
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.feed import Feed
from wallaroo.engine.realtime.frames import END_OF_EPOCH, MANY, OPEN, SAVE
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.partition import Partition
from wallaroo.engine.realtime.reader import Reader
from wallaroo.engine.realtime.shared_files import fresh_directory, remove
from wallaroo.engine.spark.slots import slots_for, spark_hash
from wallaroo.errors import DamagedFile
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.peers import PeerListener
from wallaroo.gateway.chunks.server import ChunkServer
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.wire.chunk_messages import (
    DRIVER,
    HELLO,
    READER,
    CheckpointPosition,
    Hello,
    News,
    pack_json,
)
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Tally

PATIENCE_S = 60.0
RUN = "the query"
"""Name of the query."""
Log = tuple[bytes | None, dict[int, bytes]]
"""Head of a bucket's log, as the operator keeps it, and rows by place."""


class GatewaySide:
    """Journal, outbox and the server of chunks, in a directory and in a loop of their own."""

    def __init__(
        self, directory: Path, application: Application, pace: Pace, wiring: str = ""
    ) -> None:
        self.path = directory / "chunks.sock"
        leases = Leases(directory / "claim.json")
        self.claim = leases.claim("driver")
        self.failures: list[Exception] = []
        self.loop = StoreLoop(directory, application.name, on_failure=self.failures.append)
        self.store = self.loop.store
        self.journal, self.outbox = self.store.journal, self.store.outbox
        self.loop.run(self._serve(leases, application, pace, wiring))

    async def _serve(
        self, leases: Leases, application: Application, pace: Pace, wiring: str
    ) -> None:
        self.server = ChunkServer(
            PeerListener(self.path),
            self.store,
            leases,
            EvidenceFinder(application, self.journal, {}),
            pace,
            self.failures.append,
            wiring=wiring,
        )
        self.server._resumes = _NoSuspects()
        await self.server.start()

    def close(self) -> None:
        self.loop.call(self.server.close)
        self.loop.close()

    def outputs(self, application: Application) -> dict[str, list[bytes]]:
        """All that is published and not delivered, by the name of the sink."""
        found: dict[str, list[bytes]] = defaultdict(list)
        for index, sink in enumerate(application.sinks):
            position = 0
            while (delivery := self.outbox.next(index, position, 0)) is not None:
                position = delivery.position
                found[sink.name] += delivery.outputs.cut()
        return found


class _NoSuspects(Resumes):
    """No chunk is run in a fork: the processes are threads here, and others would not be there."""

    def __setattr__(self, _name: str, _value: int) -> None:
        super().__setattr__("suspect_until", 0)


class StandIn:
    """What Spark does for a query: moves frames by slot, keeps logs, commits at ends of epochs."""

    def __init__(self, reader: FrameSocket, partitions: Sequence[FrameSocket]) -> None:
        self._reader, self._partitions = reader, partitions
        self.is_cut_off = False
        """Whether it commits nothing any more."""
        self.largest_frame = 0
        """Bytes of the largest frame that crossed."""
        self.largest_row = 0
        """Bytes of the largest frame with a row of a log."""

    def run(self, store: Store) -> None:
        """Run epochs until a process is gone."""
        with contextlib.suppress(OSError, EOFError, AttributeError):
            self._reader.send(store.place.encode())
            fresh = {slot: (head, dict(records)) for slot, (head, records) in store.logs.items()}
            while (frame := self._reader.receive()) is not None:
                slot, data = int.from_bytes(frame[:4], signed=True), frame[4:]
                self.largest_frame = max(self.largest_frame, len(data))
                if slot == END_OF_EPOCH:
                    while not store.may_commit.wait(0.01):
                        if self.is_cut_off:
                            return
                    time.sleep(store.takes_s)
                    store.commit(data.decode(), fresh)
                    self._reader.send(data)
                    continue
                if data[:1] == MANY:
                    self._hand_out(data[1:])
                    continue
                partition = self._partitions[spark_hash(slot) % len(self._partitions)]
                partition.send(data)
                if data[:1] == OPEN:
                    _tell(partition, fresh.get(slot))
                elif data[:1] == SAVE:
                    fresh[slot] = self._saved(partition, fresh.get(slot))

    def _hand_out(self, frames: bytes) -> None:
        while frames:
            partition, size = struct.unpack_from(">II", frames)
            self._partitions[partition].send(frames[8 : 8 + size])
            frames = frames[8 + size :]

    def _saved(self, partition: FrameSocket, log: Log | None) -> Log:
        """*log* with what *partition* answers; see `RealTime.scala`."""
        if (answer := partition.receive()) is None:
            raise EOFError
        rows = {} if log is None or answer[0] else log[1]
        for _ in range(int.from_bytes(answer[1:5])):
            if (row := partition.receive()) is None:
                raise EOFError
            self.largest_row = max(self.largest_row, len(row))
            rows[int.from_bytes(row[:8], signed=True)] = row[8:]
        return answer[5:], rows


class Store:
    """What is committed of a query."""

    def __init__(self) -> None:
        self.place = CheckpointPosition().to_json()
        self.logs: dict[int, Log] = {}
        self.commits = 0
        self.may_commit = threading.Event()
        """Set while epochs are committed."""
        self.may_commit.set()
        self.takes_s = 0.0
        """What each commit takes."""

    def commit(self, place: str, logs: dict[int, Log]) -> None:
        self.place = place
        self.logs = {slot: (head, dict(records)) for slot, (head, records) in logs.items()}
        self.commits += 1


def _tell(partition: FrameSocket, log: Log | None) -> None:
    if log is not None:
        head, rows = log
        assert head is not None
        partition.send(b"h", head)
        for place, row in reversed(rows.items()):
            partition.send(b"r", place.to_bytes(8, signed=True), row)
    partition.send(b"d")


class RunningQuery:
    """A query with its processes as threads; a context manager that cuts it off."""

    def __init__(
        self,
        gateway: GatewaySide,
        application: Application,
        store: Store,
        checkpoint: Path,
        attempt: int,
        partitions: int,
        buckets: int | None = None,
        *,
        files: bool = True,
        state_bytes: int = 0,
    ) -> None:
        checkpoint.mkdir(exist_ok=True)
        (checkpoint / "metadata").write_text(RUN)
        self._claim = gateway.claim
        buckets = buckets or 8 * partitions
        self._job = Job(
            ApplicationRef(""),  # programs are made below
            str(gateway.path),
            self._claim,
            attempt,
            checkpoint,
            partitions,
            buckets,
            slots_for(buckets),
            0.0,
            state_bytes=state_bytes,
            files=fresh_directory(checkpoint) if files else None,
        )
        self.tally = Tally()
        self.epochs: list[float] = []
        """For each epoch that has ended, how long no chunk was handed out."""
        hello = Hello(self._claim, attempt, DRIVER, partitions)
        self.feed = Feed(gateway.path, hello, self._on_news)
        self.damage: list[str] = []
        """What the processes have found damaged."""
        self._sockets: list[FrameSocket] = []
        java: list[FrameSocket] = []
        self._threads: list[threading.Thread] = []
        for role in (READER, *range(partitions)):
            ours, theirs = map(FrameSocket, socket.socketpair())
            java.append(ours)
            program = Program(application, self._job.routed)
            process = self._process(gateway.path, role, program, theirs)
            self._start(self._until_gone, process, theirs)
        self._stand_in = StandIn(java[0], java[1:])
        self._start(self._stand_in.run, store)
        self._sockets += java

    def _on_news(self, news: News) -> None:
        self.tally.merge(news.tally)
        self.epochs += news.epochs

    def __enter__(self) -> RunningQuery:
        return self

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest frame that has crossed Spark."""
        return self._stand_in.largest_frame

    @property
    def largest_row(self) -> int:
        """Bytes of the largest frame with a row of a log."""
        return self._stand_in.largest_row

    def __exit__(self, *_exc: object) -> None:
        self._stand_in.is_cut_off = True
        self.feed.close()
        for one in self._sockets:
            one.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        if self._job.files is not None:
            remove(self._job.files)

    def _process(
        self, path: Path, role: int, program: Program, java: FrameSocket
    ) -> Reader | Partition:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        frames = FrameSocket(connection)
        self._sockets.append(frames)
        frames.send(
            pack_json(HELLO, Hello(self._claim, self._job.attempt, role, self._job.partitions))
        )
        if role == READER:
            return Reader(self._job, program, frames, java)
        return Partition(self._job, program, role, frames, java)

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _until_gone(self, process: Reader | Partition, java: FrameSocket) -> None:
        try:
            with contextlib.suppress(OSError, EOFError):
                process.run()
        except DamagedFile as error:
            self.damage.append(str(error))
        java.close()


@contextlib.contextmanager
def gateway_side(
    directory: Path, application: Application, pace: Pace | None = None, wiring: str = ""
) -> Iterator[GatewaySide]:
    """A `GatewaySide`, closed at the end."""
    side = GatewaySide(directory, application, pace or Pace(), wiring)
    try:
        yield side
    finally:
        side.close()
    assert not side.failures, side.failures


def wait_until_processed(gateway: GatewaySide, messages: int) -> None:
    """Wait until *messages* messages are accepted and published."""
    wait_until(
        lambda: sum(gateway.journal.accepted.values()) == messages and not gateway.journal.backlog,
        "all messages to be published",
    )


def submit(
    gateway: GatewaySide, application: Application, sent: Sequence[tuple[str, bytes]]
) -> None:
    """Hand *sent* in to the journal, message by message."""
    index = {source.name: number for number, source in enumerate(application.sources)}
    for name, payload in sent:
        source = index[name]
        gateway.journal.submit(source, 1, framing_of(application.sources[source]).frame(payload))
