"""One partition of a real-time query: state computations, chunk by chunk."""

from __future__ import annotations

import marshal
import time
from functools import cached_property

from wallaroo.dataflow.bucket_logs import log_name
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.entity_checks import Saving
from wallaroo.dataflow.isolation import Saves, run_isolated
from wallaroo.dataflow.log_rows import LogRow, records_in
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.dataflow.user_logs import WORK
from wallaroo.engine.realtime.frames import (
    APPLY,
    CHUNK,
    DONE,
    FILE,
    HEAD,
    OPEN,
    PART,
    PROBE,
    SAVE,
    bucket_in,
    chunk_in,
    chunk_of,
    head_in,
    row_in,
    send_appended,
)
from wallaroo.engine.realtime.housekeeping import Housekeeping
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.look_ups import LookUps
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.engine.realtime.shared_files import SharedFiles
from wallaroo.engine.realtime.state_copy import note
from wallaroo.engine.spark.checkpoint.epochs import run_of
from wallaroo.system.failpoints import fault
from wallaroo.wire.chunk_messages import (
    CHANGES,
    END,
    LEVEL,
    READY,
    RECORD,
    CheckpointPosition,
    NextLevel,
    Report,
    next_in,
    pack_json,
    pack_report,
)
from wallaroo.wire.chunk_messages import DONE as RECORDS_END
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Packed
from wallaroo.wire.task_metrics import StoredFigures


class Partition:
    """Runs what comes to one partition.

    Args:
        job: The query.
        program: The application.
        number: Number of the partition.
        gateway: Takes reports, and brings what is direct.
        java: Brings what the first stage sends, and keeps state.
    """

    def __init__(
        self, job: Job, program: Program, number: int, gateway: FrameSocket, java: FrameSocket
    ) -> None:
        self._checkpoint, self._partitions = job.checkpoint, job.partitions
        self._limit_s = job.call_limit_s
        self._program = program
        self._number = number
        self._partition_of = job.partition_of()
        self._gateway = gateway
        self._java = java
        self._files = None if job.files is None else SharedFiles(job.files)
        serializer = EntitySerializer.of(program, job.entity_limit_bytes)
        saved = Program(program.application, job.buckets)
        memory = None
        if job.state_bytes:
            from wallaroo.engine.realtime.state_memory import StateMemory, local_directory

            share = max(1, job.state_bytes // job.partitions)
            memory = StateMemory(share, local_directory(), serializer, saved.bucket_in)
        self._state = PartitionState(serializer, saved.bucket_in, saved.bucket_of, memory)
        self._results = TaskResults()
        levels = range(1, program.levels.count + 1)
        self._buckets = {level: self._state.bucket_for_level() for level in levels}
        """The entities, by level: each has timers of its own."""
        self._runners = {level: StateRunner(program, self._results, level) for level in levels}
        self._look_ups = LookUps(program, self._state.bucket, gateway, java)
        self._housekeeping = Housekeeping()
        self._has_noted = False
        """Whether the metrics have got the size of the state once."""
        self._parts: list[bytes] = []
        """How the content of the next chunk begins."""

    def run(self) -> None:
        """Run what comes, until Java or the gateway is gone."""
        while (frame := self._look_ups.next_frame()) is not None:
            kind = frame[:1]
            if kind in {CHUNK, FILE}:
                self._run_chunk(frame)
                self._state.settle()
                self._housekeeping.between_chunks()
            elif kind == LEVEL:
                self._run_direct(next_in(frame))
                self._state.settle()
                self._housekeeping.between_chunks()
            elif kind == END:
                self._end_epoch(CheckpointPosition.from_json(frame[1:]).chunk)
            elif kind == SAVE:
                self._end_epoch(chunk_of(frame))  # if Java was faster
                fault("partition-in-save")
                send_appended(self._java, self._state.save(bucket_in(frame)))
            elif kind == PROBE:
                self._gateway.send(READY, frame[1:])
            elif kind == PART:
                self._parts.append(frame[1:])
            elif kind == OPEN:
                self._open(bucket_in(frame))
            elif kind == APPLY:
                self._apply(CheckpointPosition.from_json(frame[1:]))

    @cached_property
    def _run_name(self) -> str:
        """The name of the query, which has started."""
        return run_of(self._checkpoint)

    def _end_epoch(self, chunk: int) -> None:
        """Pack what Spark is to save, and note it for commands, before another chunk runs."""
        if self._state.end_epoch(chunk):
            note(self._checkpoint, self._number, self._partitions, chunk, self._state)

    def _open(self, bucket: int) -> None:
        head, rows = None, list[LogRow]()
        while (frame := self._java.receive()) is not None and frame[:1] != DONE:
            if frame[:1] == HEAD:
                head = head_in(frame)
            else:
                rows.append(row_in(frame))
        fault("partition-in-open")
        if frame is None:
            raise EOFError
        log = log_name(self._run_name, bucket)
        self._state.open(bucket, log, head, records_in(rows))

    def _apply(self, place: CheckpointPosition) -> None:
        """Take in the changes that were published after *place*, which Spark does not have."""
        self._state.check_age(place.chunk)
        self._gateway.send(pack_json(CHANGES, [self._run_name, place.chunk]))
        while (frame := self._gateway.receive()) is not None and frame != RECORDS_END:
            if frame[:1] == RECORD:
                self._state.apply(frame[1:])
                fault("partition-in-apply")
            else:
                self._look_ups.take(frame)
        if frame is None:
            raise EOFError
        self._look_ups.begin()
        self._state.log_unloaded()

    def _run_chunk(self, frame: bytes) -> None:
        number, level, isolates, content = chunk_in(frame)
        if self._parts:
            content = memoryview(b"".join((*self._parts, content)))
            self._parts.clear()
        if frame[:1] == FILE:
            assert self._files is not None
            content = memoryview(self._files.take(bytes(content).decode()))
        self._run(number, level, marshal.loads(content), isolates=isolates)

    def _run_direct(self, following: NextLevel) -> None:
        fault("partition-in-direct")
        blobs = list(following.sent[self._number])
        self._run(following.number, following.level, blobs, isolates=following.isolates)

    def _run(self, number: int, level: int, blobs: list[bytes], *, isolates: bool) -> None:
        WORK.begin(f"{number}.{level}.{self._number}")
        changes, sent = self._run_level(level, blobs, isolates=isolates)
        self._look_ups.ran(number, level)
        WORK.begin(None)
        began = time.thread_time()  # without what other processes take meanwhile
        record = self._state.record(changes)
        saving_s = time.thread_time() - began
        if self._housekeeping.reports(self._state.size()):
            self._note_state()
        if self._files is None:
            self._housekeeping.report_time(self._number, self._results.metrics)
        outputs, tally = self._results.take()
        to = [packed._replace(bucket=self._partition_of[packed.bucket]) for packed in sent]
        report = Report(number, outputs, tally, level, sent=to, changes=record, saving_s=saving_s)
        fault("partition-before-report")
        self._gateway.send(*pack_report(report))
        fault("partition-after-report")

    def _run_level(
        self, level: int, blobs: list[bytes], *, isolates: bool
    ) -> tuple[Changes, list[Packed]]:
        """What a level of a chunk changed, and what it sends to later levels."""
        bucket = self._buckets[level]
        if not isolates:
            runner = self._runners[level]
            return runner.run(blobs, self._number, bucket), runner.sent()

        def run(program: Program, results: TaskResults) -> tuple[Changes, list[Packed]]:
            runner = StateRunner(program, results, level)
            return runner.run(blobs, self._number, bucket), runner.sent()

        saves = Saves(Saving(self._state.serializer, bucket), lambda made: made[0])
        return run_isolated(self._program, self._results, self._limit_s, run, saves)

    def _note_state(self) -> None:
        """Add the size of the state to the metrics."""
        for runner in self._runners.values():
            runner.note_entities(self._number, self._state.bucket)
        names = ", ".join(part.name for part in self._program.partitions)
        self._results.metrics.log_bytes[names, self._number] = self._state.log_bytes
        memory = self._state.memory
        if memory is None and self._has_noted:
            return
        self._has_noted = True
        for number, part in enumerate(self._program.partitions):  # without one, none from now on
            figures = StoredFigures(0, 0, 0) if memory is None else memory.figures(number)
            self._results.metrics.stored[part.name, self._number] = figures
