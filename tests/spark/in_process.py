"""Applications on real Spark whose journal and outbox are in the test's process.

Starting `wallaroo run` takes some seconds, a query on a session that is there takes one: so this is
for tests of what the engine makes of messages, whatever sources and sinks do.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.dataflow.harness import cut
from tests.helpers import framing_of, wait_until
from tests.spark.harness import PATIENCE_S
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.records import Tally
from wallaroo.engine.base import Batch
from wallaroo.engine.batch_sizing import BatchLimits
from wallaroo.engine.microbatch import query
from wallaroo.engine.microbatch.job import Job, Readers
from wallaroo.engine.spark.slots import slots_for
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.application import Application
from wallaroo.model.loader import ApplicationRef
from wallaroo.wire.framing import Framing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sent = Sequence[tuple[str, bytes]]


@dataclass
class Result:
    """What Spark made of messages."""

    by_sink: dict[str, list[bytes]]
    """Outputs in order, by the sink's name."""
    tally: Tally
    """What was set aside or dropped."""
    batches: int
    """How many batches it took."""


class InProcess:
    """Runs applications, one after the other, on one Spark session.

    Args:
        session: Spark.
        new_directory: Makes a directory for the journal and the checkpoint of a run.
    """

    def __init__(self, session: SparkSession, new_directory: Callable[[], Path]) -> None:
        self.session = session
        self._new_directory = new_directory

    def run(
        self,
        reference: ApplicationRef,
        sent: Sent,
        *,
        workers: int = 2,
        max_batch_bytes: int = 1 << 20,
        choose: random.Random | None = None,
        until: Callable[[dict[str, list[bytes]]], bool] = lambda _: True,
        directory: Path | None = None,
        buckets: int | None = None,
    ) -> Result:
        """Run the application over *sent* until all of it is processed and *until* holds.

        Args:
            reference: The application.
            sent: Messages as pairs of source and payload, in order of arrival.
            workers: Partitions of the state, and readers.
            max_batch_bytes: Bounds the batches.
            choose: Decides how the messages are cut into chunks.
            until: What must hold of the outputs by sink.
            directory: Where an earlier run left off, to go on there; else a new one.
            buckets: Buckets that keys are spread over; eight for each partition if not given.
        """
        application = reference.load()
        program = Program(application, buckets or 8 * workers)
        directory = directory or self._new_directory()
        edge = _Edge(directory)
        edge.send(application, sent, choose or random.Random(0))
        self.session.conf.set("spark.sql.shuffle.partitions", workers)
        readers = Readers(str(directory / "readers"))
        readers.set(workers)
        job = Job(
            uuid.uuid4().hex,
            reference,
            Connector(edge.location),
            program.buckets,
            slots_for(program.buckets),
            readers,
            program.repeated,
            BatchLimits(max_batch_bytes),
            idle_wait_s=0.05,
        )
        tally = Tally()
        batches: list[int] = []

        def committed(batch: Batch) -> None:
            tally.merge(batch.tally)
            batches.append(batch.number)

        running = query.start(self.session, program, job, directory / "checkpoint", committed)
        try:
            wait_until(
                lambda: (
                    running.failure()
                    or (not edge.journal.backlog and until(edge.outputs(application)))
                ),
                "the outputs",
                PATIENCE_S,
            )
            failure = running.failure()
            assert failure is None, failure
            running.finish_batch()
            return Result(edge.outputs(application), tally, len(batches))
        finally:
            running.stop()
            edge.close()


class _Edge:
    """Journal, outbox and internal API, without the sockets of sources and sinks."""

    def __init__(self, directory: Path) -> None:
        self.journal = Journal(directory / "journal.db", JournalLimits())
        self._outbox = Outbox(directory / "outbox.db", 1 << 30)
        self.location = f"grpc+unix://{directory}/{uuid.uuid4().hex[:8]}.sock"
        guard = Authenticator(None, Leases(directory / "claim.json"))
        self._service = Service(self.location, self.journal, self._outbox, {}, guard)

    def send(self, application: Application, sent: Sent, choose: random.Random) -> None:
        """Put *sent* into the journal, in chunks of random sizes."""
        indices = {source.name: number for number, source in enumerate(application.sources)}
        left = list(sent)
        while left:
            size = choose.randint(1, 20)
            some = [left.pop(0)]
            while left and len(some) < size and left[0][0] == some[0][0]:
                some.append(left.pop(0))
            index = indices[some[0][0]]
            framing = framing_of(application.sources[index])
            frames = b"".join(_frame(framing, payload) for _, payload in some)
            self.journal.submit(index, len(some), frames)
        assert self.journal.flush(10)

    def outputs(self, application: Application) -> dict[str, list[bytes]]:
        """What was published so far, in order, by sink."""
        return {sink.name: self._outputs(n) for n, sink in enumerate(application.sinks)}

    def _outputs(self, sink: int) -> list[bytes]:
        made: list[bytes] = []
        position = 0
        while (delivery := self._outbox.next(sink, position, 0.0)) is not None:
            position = delivery.position
            made += cut(delivery.outputs.lengths, delivery.outputs.data)
        return made

    def close(self) -> None:
        self._service.shutdown()
        self.journal.close()
        self._outbox.close()


def _frame(framing: Framing, payload: bytes) -> bytes:
    """*payload* with a header; one of a byte where only a function can read it."""
    if isinstance(framing.length_fmt, str):
        return framing.frame(payload)
    headers = (bytes([number]) for number in range(256))
    return next(h for h in headers if framing.length_fmt(h) == len(payload)) + payload
