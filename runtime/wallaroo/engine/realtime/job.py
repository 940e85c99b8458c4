"""The job of a query's processes, from the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.dataflow.program import Program
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark.shipping import locate
from wallaroo.engine.spark.slots import spark_hash
from wallaroo.engine.spark.worker_version import version_here
from wallaroo.loading.loader import ApplicationRef
from wallaroo.wire.chunk_messages import Hello


@dataclass(frozen=True)
class Job:
    """What the processes of one query need."""

    application: ApplicationRef
    """The application and its arguments."""
    gateway: str
    """Address of the gateway for `connect`."""
    claim: int
    """Number of the driver's lease."""
    attempt: int
    """Number of the query among those that the driver has started."""
    checkpoint: Path
    """Directory of the query's checkpoint."""
    partitions: int
    """Partitions of the state."""
    buckets: int
    """Buckets that keys are spread over in the state store."""
    slots: tuple[int, ...]
    """For each bucket, the number that Spark's exchange hashes."""
    call_limit_s: float
    """Seconds that a function of the application may take for one message; 0 for no limit."""
    entity_limit_bytes: int = EngineSettings.entity_limit_bytes
    """Bytes that an entity may take when it is saved."""
    state_bytes: int = EngineSettings.state_bytes
    """Bytes of memory that the entities of all partitions may take; 0 for no limit."""
    files: Path | None = None
    """Where the first stage leaves large frames for partitions; None if it shares no memory with
    all of them."""
    wiring: str | None = None
    """That of the application; None if it is the gateway's for certain."""
    token: str | None = field(default=None, repr=False)
    """The gateway's token; None if the environment has it, or the name of its file."""
    version: str = field(default_factory=version_here)
    """What the driver runs; see `worker_version`."""

    def hello(self, role: int) -> Hello:
        """What the process *role* says to the gateway."""
        return Hello(self.claim, self.attempt, role, self.partitions, self.wiring)

    def program(self, files: str = "") -> Program:
        """The application, for chunks.

        Args:
            files: Directory of the files that the driver has distributed, if it has.
        """
        application = locate(self.application, files).load()
        return Program(application, self.routed)

    @property
    def routed(self) -> int:
        """Buckets that chunks are routed to: each partition is one, if it has as many as others."""
        return self.buckets if self.buckets % self.partitions else self.partitions

    def partition_of(self) -> tuple[int, ...]:
        """For each bucket that chunks are routed to, the partition that Spark sends it to."""
        if self.routed == self.partitions:
            return tuple(range(self.partitions))
        return tuple(spark_hash(slot) % self.partitions for slot in self.slots)
