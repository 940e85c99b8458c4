"""Applications on real Spark whose journal and outbox are in the test's process.

Starting `wallaroo run` takes some seconds, a query on a session that is there takes one: so this is
for tests of what the engine makes of messages, whatever sources and sinks do.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.gateway.store_loop import StoreLoop
from tests.helpers import framing_of, wait_until
from tests.spark.harness import PATIENCE_S
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.query import RealTimeQuery
from wallaroo.engine.realtime.settings import SETTINGS
from wallaroo.engine.spark.session import Launch, Spark, SparkSettings
from wallaroo.engine.spark.slots import slots_for
from wallaroo.gateway.chunks.pace import Pace
from wallaroo.gateway.chunks.peers import PeerListener
from wallaroo.gateway.chunks.server import ChunkServer
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.wire.chunk_messages import News
from wallaroo.wire.framing import Framing
from wallaroo.wire.records import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER = "local[16]"
"""All tasks of a real-time query run at once."""
Sent = Sequence[tuple[str, bytes]]


def launch(name: str, scratch: Path) -> Spark:
    """A local Spark on which queries run."""
    settings = SparkSettings(_MASTER, 1, scratch, extra=SETTINGS, jars=(jar(),))
    return Launch(name, settings).finish()


@dataclass
class Result:
    """What Spark made of messages."""

    by_sink: dict[str, list[bytes]]
    """Outputs in order, by the sink's name."""
    tally: Tally
    """What was set aside or dropped."""
    chunks: int
    """How many chunks it took."""


class InProcess:
    """Runs applications, one after the other, on one Spark session.

    Args:
        session: Spark, from `launch`.
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
        max_chunk_bytes: int = 1 << 20,
        choose: random.Random | None = None,
        until: Callable[[dict[str, list[bytes]]], bool] = lambda _: True,
        directory: Path | None = None,
        buckets: int | None = None,
    ) -> Result:
        """Run the application over *sent* until all of it is processed and *until* holds.

        Args:
            reference: The application.
            sent: Messages as pairs of source and payload, in order of arrival.
            workers: Partitions of the state.
            max_chunk_bytes: Bounds the chunks.
            choose: Decides how the messages are cut into chunks.
            until: What must hold of the outputs by sink.
            directory: Where an earlier run left off, to go on there; else a new one.
            buckets: Buckets that keys are spread over; eight for each partition if not given.
        """
        application = reference.load()
        program = Program(application, buckets or 8 * workers)
        directory = directory or self._new_directory()
        edge = _Edge(directory, application, Pace(chunk_bytes=max_chunk_bytes))
        edge.send(sent, choose or random.Random(0))
        before = edge.chunks()
        self.session.conf.set("spark.sql.shuffle.partitions", workers)
        tally = Tally()

        def published(news: News) -> None:
            tally.merge(news.tally)

        jvm: Any = self.session._jvm
        job = Job(
            reference,
            str(edge.chunk_socket),
            edge.leases.claim("driver"),
            jvm.wallaroo.realtime.Agent.fresh(),
            directory / "checkpoint",
            workers,
            program.buckets,
            slots_for(program.buckets),
            60.0,
        )
        running = RealTimeQuery(self.session, job, application.name, published)
        try:
            wait_until(
                lambda: running.failure() or (not edge.journal.backlog and until(edge.outputs())),
                "the outputs",
                PATIENCE_S,
            )
            failure = running.failure()
            assert failure is None, failure
            running.finish_epoch()
            return Result(edge.outputs(), tally, edge.chunks() - before)
        finally:
            running.stop()
            edge.close()


class _Edge:
    """Journal, outbox and the socket for chunks, without those of sources and sinks."""

    def __init__(self, directory: Path, application: Application, pace: Pace) -> None:
        self._application = application
        self._loop = StoreLoop(directory)
        self.journal, self._outbox = self._loop.store.journal, self._loop.store.outbox
        self.sockets = Path(tempfile.mkdtemp(prefix="wallaroo-"))  # paths of sockets must be short
        self.chunk_socket = self.sockets / "chunks.sock"
        self.leases = Leases(directory / "claim.json")
        self._loop.run(self._serve(pace))

    async def _serve(self, pace: Pace) -> None:
        self._chunks = ChunkServer(
            PeerListener(self.chunk_socket),
            self._loop.store,
            self.leases,
            EvidenceFinder(self._application, self.journal, {}),
            pace,
            lambda _error: None,
        )
        await self._chunks.start()

    def send(self, sent: Sent, choose: random.Random) -> None:
        """Put *sent* into the journal, in chunks of random sizes."""
        sources = self._application.sources
        indices = {source.name: number for number, source in enumerate(sources)}
        left = list(sent)
        while left:
            size = choose.randint(1, 20)
            some = [left.pop(0)]
            while left and len(some) < size and left[0][0] == some[0][0]:
                some.append(left.pop(0))
            index = indices[some[0][0]]
            framing = framing_of(sources[index])
            frames = b"".join(_frame(framing, payload) for _, payload in some)
            self.journal.submit(index, len(some), frames)
        assert self.journal.flush(10)

    def outputs(self) -> dict[str, list[bytes]]:
        """What was published so far, in order, by sink."""
        return {sink.name: self._outputs(n) for n, sink in enumerate(self._application.sinks)}

    def chunks(self) -> int:
        """How many chunks are published."""
        return sum(progress.chunk for progress in self._outbox.progress().values())

    def _outputs(self, sink: int) -> list[bytes]:
        made: list[bytes] = []
        position = 0
        while (delivery := self._outbox.next(sink, position, 0.0)) is not None:
            position = delivery.position
            made += delivery.outputs.cut()
        return made

    def close(self) -> None:
        self._loop.call(self._chunks.close)
        self._loop.close()
        shutil.rmtree(self.sockets)


def _frame(framing: Framing, payload: bytes) -> bytes:
    """*payload* with a header; one of a byte where only a function can read it."""
    if isinstance(framing.length_fmt, str):
        return framing.frame(payload)
    headers = (bytes([number]) for number in range(256))
    return next(h for h in headers if framing.length_fmt(h) == len(payload)) + payload
