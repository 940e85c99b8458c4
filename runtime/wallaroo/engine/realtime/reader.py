"""The first stage of a real-time query, chunk by chunk."""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Sequence

from wallaroo.dataflow.isolation import run_isolated
from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.router import Router
from wallaroo.engine.realtime.frames import (
    APPLY,
    CHUNK,
    END_OF_EPOCH,
    OPEN,
    SAVE,
    FrameSocket,
    pack_bucket,
    pack_numbered,
    pack_slot,
)
from wallaroo.engine.realtime.housekeeping import Housekeeping
from wallaroo.engine.realtime.messages import (
    BEGIN,
    TASK,
    Place,
    Report,
    Task,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.engine.realtime.process import Job
from wallaroo.engine.realtime.results import ChunkResults
from wallaroo.system.failpoints import fault


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
        self._results = ChunkResults()
        self._router = Router(program, self._results)
        self._housekeeping = Housekeeping()

    def run(self) -> None:
        """Run epoch after epoch, until Java or the gateway is gone."""
        begun = False
        while (start := self._java.receive()) is not None:
            if not begun:
                begun = True
                self._open(start)
            run = (self._job.checkpoint / "metadata").read_text()
            fault("reader-before-begin")
            self._gateway.send(pack_json(BEGIN, [run, *Place.from_json(start)]))
            self._run_epoch()

    def _open(self, start: bytes) -> None:
        """Let the partitions read their state, as of *start*."""
        for bucket, slot in enumerate(self._job.slots):
            self._java.send(pack_slot(slot), pack_bucket(OPEN, bucket))
        fault("reader-in-open")
        for slot in self._job.slots[: self._job.partitions]:
            self._java.send(pack_slot(slot), APPLY, start)

    def _run_epoch(self) -> None:
        while (frame := self._gateway.receive()) is not None:
            if frame[:1] == TASK:
                self._run_task(task_in(frame))
                self._housekeeping.between_chunks()
                continue
            for bucket, slot in enumerate(self._job.slots):
                self._java.send(pack_slot(slot), pack_bucket(SAVE, bucket))
                fault("reader-in-save")
            self._java.send(pack_slot(END_OF_EPOCH), frame[1:])
            return
        raise EOFError

    def _run_task(self, task: Task) -> None:
        blobs: dict[int, list[bytes]] = defaultdict(list)
        for packed in self._route(task):
            blobs[packed.bucket].append(packed.blob)
        for partition, of_partition in blobs.items():
            self._java.send(
                pack_slot(self._job.slots[partition]),
                pack_numbered(CHUNK, task.number),
                b"\1" if task.isolates else b"\0",
                marshal.dumps(of_partition, 2),
            )
        outputs, tally = self._results.take()
        report = Report(task.number, outputs, tally, tuple(blobs))
        fault("reader-before-report")
        self._gateway.send(*pack_report(report))

    def _route(self, task: Task) -> Sequence[Packed]:
        if not task.isolates:
            return self._router.route(task.chunks)

        def route(program: Program, results: TaskResults) -> list[Packed]:
            return Router(program, results).route(task.chunks)

        return run_isolated(self._program, self._results, self._job.call_limit_s, route)
