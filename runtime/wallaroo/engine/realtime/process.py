"""A process of a real-time query: the first stage, or one partition.

It serves Spark's Java on a Unix socket, and speaks with the gateway over another one. Where either
ends, so does it: the query fails then, and is started again from what is published.
"""

from __future__ import annotations

import gc
import os
import pickle
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.user_logs import capture_worker_logs, log_event, worker_name
from wallaroo.engine.realtime.frames import FrameSocket
from wallaroo.engine.realtime.messages import HELLO, READER, Hello, pack_json
from wallaroo.engine.spark.slots import spark_hash
from wallaroo.model.loader import ApplicationRef
from wallaroo.observability import log_channel
from wallaroo.system.lifeline import die_with_starter

JOB = "job"
"""Name of the file with the `Job`, in the directory of the sockets."""


@dataclass(frozen=True)
class Job:
    """What the processes of one query need."""

    application: ApplicationRef
    """The application and its arguments."""
    gateway: str
    """Path of the gateway's socket for chunks."""
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
    repeated: frozenset[int]
    """See `Program`."""
    call_limit_s: float
    """Seconds that a function of the application may take for one message; 0 for no limit."""
    files: Path | None = None
    """Where the first stage leaves large frames for partitions; None if it shares no memory with
    all of them."""

    def program(self) -> Program:
        """The application, for chunks."""
        return Program(self.application.load(), self.routed, self.repeated)

    @property
    def routed(self) -> int:
        """Buckets that chunks are routed to: each partition is one, if it has as many as others."""
        return self.buckets if self.buckets % self.partitions else self.partitions

    def partition_of(self) -> tuple[int, ...]:
        """For each bucket that chunks are routed to, the partition that Spark sends it to."""
        if self.routed == self.partitions:
            return tuple(range(self.partitions))
        return tuple(spark_hash(slot) % self.partitions for slot in self.slots)


def socket_of(directory: Path, role: int) -> Path:
    """The socket on which the process *role* serves Java."""
    return directory / ("reader.sock" if role == READER else f"partition-{role}.sock")


def main(directory: Path, role: int) -> None:
    """Be the process *role* of the query whose sockets are in *directory*."""
    die_with_starter()
    log_channel.take_over()
    capture_worker_logs(None, worker=worker_name())
    job: Job = pickle.loads((directory / JOB).read_bytes())
    program = job.program()
    capture_worker_logs(program.application.name)
    gc.collect()
    gc.freeze()
    gc.disable()  # the collector is called between chunks
    patience = CallTimeout(job.call_limit_s)
    gateway = _connected(job, role)
    java = _accepted(socket_of(directory, role))
    patience.start()
    if role == READER:
        from wallaroo.engine.realtime.reader import Reader

        Reader(job, program, gateway, java).run()
    else:
        from wallaroo.engine.realtime.partition import Partition

        Partition(job, program, role, gateway, java).run()


def _connected(job: Job, role: int) -> FrameSocket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(job.gateway)
    gateway = FrameSocket(connection)
    gateway.send(pack_json(HELLO, Hello(job.claim, job.attempt, role, job.partitions)))
    return gateway


def _accepted(path: Path) -> FrameSocket:
    fresh = path.with_suffix(".new")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(fresh))
        listener.listen(1)
        fresh.rename(path)  # once it exists, connections are accepted
        connection, _ = listener.accept()
    return FrameSocket(connection)


def _end(status: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # no thread of user code keeps it alive


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except (ConnectionError, EOFError):
        _end(1)  # the gateway or Java is gone
    except BaseException as error:
        log_event(
            "error", "a process of the query failed", error=f"{type(error).__name__}: {error}"
        )
        _end(1)
    _end(0)
