"""The first stage of a real-time query, chunk by chunk."""

from __future__ import annotations

import marshal
import select
from collections import defaultdict
from collections.abc import Mapping, Sequence

from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.isolation import run_isolated
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.user_logs import WORK
from wallaroo.engine.realtime.checkpoint import note_begun, note_ended
from wallaroo.engine.realtime.frames import (
    APPLY,
    CHUNK,
    END_OF_EPOCH,
    FILE,
    MANY,
    OPEN,
    PART,
    PROBE,
    SAVE,
    cut,
    pack_bucket,
    pack_chunk,
    pack_for,
    pack_slot,
)
from wallaroo.engine.realtime.housekeeping import Housekeeping
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.shared_files import SharedFiles
from wallaroo.engine.spark.checkpoint.epochs import run_of
from wallaroo.engine.spark.slots import slots_for
from wallaroo.system.failpoints import fault
from wallaroo.wire.chunk_messages import (
    BEGIN,
    END,
    LEVEL,
    READER,
    CheckpointPosition,
    NextLevel,
    Report,
    Task,
    next_in,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Packed


class Reader:
    """Routes chunks to partitions.

    Args:
        job: The query.
        program: The application.
        gateway: Gives chunks.
        java: Takes what goes to partitions.
    """

    def __init__(self, job: Job, program: Program, gateway: FrameSocket, java: FrameSocket) -> None:
        self._job = job
        self._program = program
        self._gateway = gateway
        self._java = java
        self._poll = select.poll()
        for connection in (gateway, java):
            self._poll.register(connection.fileno(), select.POLLIN)
        self._partition_of = job.partition_of()
        self._slots = slots_for(job.partitions)
        """For each partition, a number that Spark sends to it."""
        self._results = TaskResults()
        self._router = Router(program, self._results)
        self._housekeeping = Housekeeping()
        self._files = None if job.files is None else SharedFiles(job.files)
        self._start = CheckpointPosition()
        """Where the epoch of the next chunk begins; Spark may still be on its way there."""
        self._noted: int | None = None
        """The last chunk before it, if that is noted in the checkpoint."""
        self._kept: dict[tuple[int, int], dict[int, list[bytes]]] = {}
        """What goes to later levels, by chunk and level, and by partition."""

    def run(self) -> None:
        """Run epoch after epoch, until Java or the gateway is gone."""
        if (start := self._java.receive()) is None:
            return
        self._open(start)
        run = run_of(self._job.checkpoint)
        while start is not None:
            self._start = CheckpointPosition.from_json(start)
            fault("reader-before-begin")
            self._gateway.send(pack_json(BEGIN, [run, bool(self._program.timed), *self._start]))
            self._probe()
            self._run_epoch()
            start = self._next_start()

    def _open(self, start: bytes) -> None:
        """Let the partitions read their state, as of *start*."""
        for bucket, slot in enumerate(self._job.slots):
            self._java.send(pack_slot(slot), pack_bucket(OPEN, bucket))
        fault("reader-in-open")
        for slot in self._slots:
            self._java.send(pack_slot(slot), APPLY, start)

    def _probe(self) -> None:
        """Let each partition confirm that frames reach it: Spark's tasks take a moment to start."""
        frames: dict[bytes, list[bytes]] = defaultdict(list)
        for partition in range(self._job.partitions):
            probe = pack_for(partition, PROBE, b"%d" % self._start.chunk)
            frames[self._slot_of(partition)].append(probe)
        self._send_to_java(frames)

    def _run_epoch(self) -> None:
        while (frame := self._gateway.receive()) is not None and frame[:1] != END:
            self._take(frame)
        if frame is None:
            raise EOFError
        end = CheckpointPosition.from_json(frame[1:])
        if end.chunk == self._start.chunk:  # what a killed driver has begun was not published
            note_ended(self._job.checkpoint)
            self._noted = None
        for bucket, slot in enumerate(self._job.slots):
            self._java.send(pack_slot(slot), pack_bucket(SAVE, bucket, end.chunk))
            fault("reader-in-save")
        self._java.send(pack_slot(END_OF_EPOCH), frame[1:])
        self._start = end

    def _next_start(self) -> bytes | None:
        """Run chunks that are direct until Java begins the next epoch; None if it is gone."""
        java = self._java.fileno()
        while True:
            frame = next(self._gateway.arrived(), None)
            if frame is not None:
                self._take(frame)
            if java in {ready for ready, _ in self._poll.poll(None if frame is None else 0)}:
                return self._java.receive()

    def _take(self, frame: bytes) -> None:
        if frame[:1] == LEVEL:
            self._hand_on(next_in(frame))
            return
        if self._noted != self._start.chunk:
            self._noted = self._start.chunk
            note_begun(self._job.checkpoint, self._start)
        self._run_task(task_in(frame))
        self._housekeeping.between_chunks()

    def _run_task(self, task: Task) -> None:
        WORK.begin(str(task.start))
        routed, partition_of = self._route(task), self._partition_of
        expected, sent = dict[int, list[int]](), list[Packed]()
        if task.direct:
            fault("reader-in-direct")
            sent = [packed._replace(bucket=partition_of[packed.bucket]) for packed in routed]
        else:
            expected = self._send_first(task, routed)
        if self._files is None:
            self._housekeeping.report_time(READER, self._results.metrics)
        outputs, tally = self._results.take()
        report = Report(task.number, outputs, tally, partitions=expected, sent=sent)
        fault("reader-before-report")
        self._gateway.send(*pack_report(report))

    def _send_first(self, task: Task, routed: Sequence[Packed]) -> dict[int, list[int]]:
        """Let partitions run the first level of a chunk, and keep what is for later ones.

        Returns:
            The partitions of each level.
        """
        by_level: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        for level, bucket, blob in routed:
            by_level[level][self._partition_of[bucket]].append(blob)
        expected = {level: list(of_level) for level, of_level in by_level.items()}
        self._send(task.number, 1, by_level.pop(1, {}), isolates=task.isolates)
        for level, of_level in by_level.items():
            self._kept[task.number, level] = of_level
        return expected

    def _hand_on(self, following: NextLevel) -> None:
        """Let partitions run the next level of a chunk."""
        fault("reader-before-level")
        blobs = self._kept.pop((following.number, following.level), {})
        for partition, sent in following.sent.items():
            blobs.setdefault(partition, []).extend(sent)
        self._send(following.number, following.level, blobs, isolates=following.isolates)

    def _send(
        self, number: int, level: int, blobs: Mapping[int, list[bytes]], *, isolates: bool
    ) -> None:
        frames: dict[bytes, list[bytes]] = defaultdict(list)
        for partition, of_partition in blobs.items():
            kind, content = CHUNK, marshal.dumps(of_partition, 2)
            if self._files is not None:
                name = f"{number}-{level}-{partition}"
                if self._files.put(name, content):
                    kind, content = FILE, name.encode()
            slot = self._slot_of(partition)
            ahead, last = cut(content)
            for part in ahead:
                self._java.send(slot, MANY, pack_for(partition, PART, part))
            head = pack_chunk(kind, number, level, isolates=isolates)
            frames[slot].append(pack_for(partition, head, last))
        self._send_to_java(frames)

    def _slot_of(self, partition: int) -> bytes:
        # on one machine, one task of Spark is woken, which hands out the frames of all
        return pack_slot(self._slots[partition if self._files is None else 0])

    def _send_to_java(self, frames: Mapping[bytes, Sequence[bytes]]) -> None:
        for slot, together in frames.items():
            self._java.send(slot, MANY, *together)

    def _route(self, task: Task) -> Sequence[Packed]:
        if not task.isolates:
            return self._router.route(task.chunks)

        def route(program: Program, results: TaskResults) -> list[Packed]:
            return Router(program, results).route(task.chunks)

        return run_isolated(self._program, self._results, self._job.call_limit_s, route)
