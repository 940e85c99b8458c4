"""What a worker needs to take part in running an application, on any machine."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.dataflow.entities import EntityCache
from wallaroo.dataflow.process_health import note_connections, open_sockets
from wallaroo.dataflow.program import Program, codecs_of, versions_in
from wallaroo.dataflow.records import Outputs, Tally
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.user_logs import capture_worker_logs, worker_name
from wallaroo.engine.base import EngineSettings
from wallaroo.engine.batch_sizing import BatchLimits, CostsFile
from wallaroo.engine.gateway_api import Connect, GatewayAPI
from wallaroo.engine.spark.task_epoch import task_epoch
from wallaroo.engine.spark.worker_version import check_version, version_here
from wallaroo.model.loader import ApplicationRef


@dataclass(frozen=True)
class Readers:
    """Maximum number of ranges of a batch: one for each worker. The number of workers may change.

    Zero holds the query: the batch in progress ends, and no other begins.

    The number is in a file, which the driver writes and Spark's planning process, on the same
    machine, reads before each batch.
    """

    file: str

    def set(self, number: int) -> None:
        """Let batches be read in *number* ranges from the next one on."""
        fresh = Path(f"{self.file}.new")
        fresh.write_text(str(number))
        fresh.replace(self.file)

    def now(self) -> int:
        """The number of ranges for a batch that begins now; 0 if none is to begin."""
        return int(Path(self.file).read_text())


@dataclass(frozen=True)
class Job:
    """One run of one application; hashable and picklable, so that workers share its context.

    Args:
        run: Random name of this start of the query: what a process keeps in memory belongs to one.
        application: The application and its arguments.
        connect: Connects to the gateway.
        buckets: Number of buckets that keys are spread over.
        slots: For each bucket, the number that Spark's exchange hashes; chosen so that the buckets
            fall evenly on the partitions.
        readers: Maximum number of ranges that a batch is read in.
        checkpoint: Directory of the query's checkpoint.
        batch: Bounds of a batch.
        idle_wait_s: Seconds that an idle query waits for messages before it looks again.
        call_limit_s: Seconds that a function of the application may take for one message; 0 for no
            limit.
        entity_limit_bytes: Bytes that an entity may take when it is saved.
        costs: Where to write what batches cost; None to disable.
        version: What the driver runs; see `worker_version`.
        suspect: Number of a batch with which the query has failed, so that its messages are run in
            copies first (see `isolation`); -1 for none.
    """

    run: str
    application: ApplicationRef
    connect: Connect
    buckets: int
    slots: tuple[int, ...]
    readers: Readers
    checkpoint: Path
    batch: BatchLimits = field(default_factory=BatchLimits)
    idle_wait_s: float = 1.0
    call_limit_s: float = 60.0
    entity_limit_bytes: int = EngineSettings.entity_limit_bytes
    costs: CostsFile | None = None
    version: str = field(default_factory=version_here)
    suspect: int = -1


@dataclass(frozen=True)
class WorkerContext:
    """What a process keeps between the tasks of one job."""

    job: Job
    program: Program
    gateway: GatewayAPI
    caches: Sequence[EntityCache]
    """Entities in memory, by level from 1."""

    def cache(self, level: int) -> EntityCache:
        """The entities of *level* in memory."""
        return self.caches[level - 1]

    def results(self) -> tuple[str, TaskResults]:
        """A fresh token, and results of the current task, staged at the gateway under the token."""
        token, gateway = uuid.uuid4().hex, self.gateway
        epoch = task_epoch()

        def deliver(outputs: Sequence[Outputs], tally: Tally) -> None:
            gateway.stage(epoch.run, epoch.number, token, outputs, tally)

        return token, TaskResults(deliver)


@functools.lru_cache(maxsize=1)
def worker_context(job: Job, locate: Callable[[ApplicationRef], ApplicationRef]) -> WorkerContext:
    """The context of *job* in this process, made on first use.

    Args:
        job: The job.
        locate: Converts the reference of the application to its path in this process.
    """
    capture_worker_logs(None, worker=worker_name())
    check_version(getattr(job, "version", None))
    note_connections()  # those to Spark
    program = Program(locate(job.application).load(), job.buckets)
    capture_worker_logs(program.application.name)
    names, codecs = [partition.name for partition in program.partitions], codecs_of(program)
    limit = job.entity_limit_bytes
    versions = versions_in(program)
    caches = [EntityCache(names, codecs, limit, versions) for _ in range(program.levels.count)]
    before = open_sockets()
    gateway = job.connect()
    note_connections(open_sockets() - before)
    return WorkerContext(job, program, gateway, caches)
