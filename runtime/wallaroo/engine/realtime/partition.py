"""One partition of a real-time query: state computations, chunk by chunk."""

from __future__ import annotations

import marshal
import time

from wallaroo.dataflow.entities import Changes, EntityCache
from wallaroo.dataflow.entity_checks import Saving
from wallaroo.dataflow.isolation import Saves, run_isolated
from wallaroo.dataflow.program import Program, codecs_of
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.engine.realtime.frames import (
    APPLY,
    CHUNK,
    DONE,
    HEAD,
    OPEN,
    SAVE,
    FrameSocket,
    bucket_in,
    head_in,
    number_in,
    pack_appended,
    record_in,
)
from wallaroo.engine.realtime.housekeeping import Housekeeping
from wallaroo.engine.realtime.messages import CHANGES, RECORD, Place, Report, pack_json, pack_report
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.engine.realtime.process import Job
from wallaroo.engine.realtime.results import ChunkResults
from wallaroo.system.failpoints import fault

_LEVEL = 1
"""The one level of an application that this engine runs."""


class Partition:
    """Runs what comes to one partition.

    Args:
        job: The query.
        program: The application.
        number: Number of the partition.
        gateway: Takes reports.
        java: Brings what the first stage sends, and keeps state.
    """

    def __init__(
        self, job: Job, program: Program, number: int, gateway: FrameSocket, java: FrameSocket
    ) -> None:
        self._checkpoint = job.checkpoint
        self._limit_s = job.call_limit_s
        self._program = program
        self._number = number
        self._gateway = gateway
        self._java = java
        cache = EntityCache([part.name for part in program.partitions], codecs_of(program))
        self._state = PartitionState(cache, job.buckets)
        self._results = ChunkResults()
        self._state_runner = StateRunner(program, self._results, _LEVEL)
        self._housekeeping = Housekeeping()
        self._saves = False
        """Whether an epoch ends."""

    def run(self) -> None:
        """Run what comes, until Java or the gateway is gone."""
        while (frame := self._java.receive()) is not None:
            kind = frame[:1]
            if kind == SAVE:
                self._saves = True
                fault("partition-in-save")
                self._java.send(*pack_appended(self._state.save(bucket_in(frame))))
                continue
            if self._saves:
                self._saves = False
                self._state.begin_epoch()
            if kind == CHUNK:
                self._run_chunk(*number_in(frame))
                self._housekeeping.between_chunks()
            elif kind == OPEN:
                self._open(bucket_in(frame))
            elif kind == APPLY:
                self._apply(Place.from_json(frame[1:]))

    def _open(self, bucket: int) -> None:
        head, records = None, list[tuple[int, bytes]]()
        while (frame := self._java.receive()) is not None and frame[:1] != DONE:
            if frame[:1] == HEAD:
                head = head_in(frame)
            else:
                records.append(record_in(frame))
        fault("partition-in-open")
        if frame is None:
            raise EOFError
        self._state.open(bucket, head, (record for _, record in sorted(records)))

    def _apply(self, place: Place) -> None:
        """Take in the changes that were published after *place*, which Spark does not have."""
        run = (self._checkpoint / "metadata").read_text()
        self._gateway.send(pack_json(CHANGES, [run, place.chunk]))
        while (frame := self._gateway.receive()) is not None and frame[:1] == RECORD:
            self._state.apply(frame[1:])
            fault("partition-in-apply")
        if frame is None:
            raise EOFError

    def _run_chunk(self, number: int, body: memoryview) -> None:
        isolates, blobs = body[0] == 1, marshal.loads(body[1:])
        changes = self._changes(blobs, isolates=isolates)
        began = time.thread_time()  # without what other processes take meanwhile
        record = self._state.record(changes)
        saving_s = time.thread_time() - began
        if self._housekeeping.reports():
            self._state_runner.note_state(self._number, self._state.bucket)
        outputs, tally = self._results.take()
        report = Report(number, outputs, tally, (), record, saving_s)
        fault("partition-before-report")
        self._gateway.send(*pack_report(report))
        fault("partition-after-report")

    def _changes(self, blobs: list[bytes], *, isolates: bool) -> Changes:
        bucket = self._state.bucket
        if not isolates:
            return self._state_runner.run(blobs, self._number, bucket)

        def run(program: Program, results: TaskResults) -> Changes:
            return StateRunner(program, results, _LEVEL).run(blobs, self._number, bucket)

        saves = Saves(Saving(self._state.cache, bucket), lambda changes: changes)
        return run_isolated(self._program, self._results, self._limit_s, run, saves)
