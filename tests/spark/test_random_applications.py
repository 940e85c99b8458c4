"""Random applications on random input, on one to three workers of real Spark."""

from __future__ import annotations

import random
import uuid
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers import ROOT, wait_until
from wallaroo.edge.client import connector
from wallaroo.edge.journal import Journal, JournalLimits
from wallaroo.edge.outbox import Outbox
from wallaroo.edge.service import Service
from wallaroo.engine.job import Job
from wallaroo.engine.program import Program
from wallaroo.engine.running import Batch
from wallaroo.engine.spark import query
from wallaroo.engine.spark.session import SparkSettings, start_session
from wallaroo.engine.spark.slots import slots_for
from wallaroo.model.application import Application
from wallaroo.model.loader import ApplicationRef
from wallaroo.testing import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MESSAGES = 300
SEEDS = range(12)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = SparkSettings("local[3]", 1, tmp_path_factory.mktemp("spark"))
    started = start_session("random", settings, [str(ROOT)], lambda _line: None)
    yield started.session
    started.stop()


class Edge:
    """Journal, outbox and inner door, without sockets of sources and sinks."""

    def __init__(self, directory: Path) -> None:
        self.journal = Journal(directory / "journal.db", JournalLimits())
        self.outbox = Outbox(directory / "outbox.db", 1 << 30)
        self.location = f"grpc+unix://{directory}/door.sock"
        self._service = Service(self.location, self.journal, self.outbox, {})

    def outputs(self, sink: int) -> list[bytes]:
        """What was published for *sink*, in order."""
        made: list[bytes] = []
        position = 0
        while (delivery := self.outbox.next(sink, position, 0.0)) is not None:
            position, start = delivery.position, 0
            for length in array("I", delivery.outputs.lengths):
                made.append(delivery.outputs.data[start : start + length])
                start += length
        return made

    def close(self) -> None:
        self._service.shutdown()
        self.journal.close()
        self.outbox.close()


def sent_to(application: Application, choose: random.Random, edge: Edge) -> list[tuple[str, bytes]]:
    """Random messages, put into the journal in random chunks."""
    sent: list[tuple[str, bytes]] = []
    while len(sent) < MESSAGES:
        index = choose.randrange(len(application.sources))
        source = application.sources[index]
        some = [
            f"{choose.choice('abcd')}{choose.randint(0, 60)}".encode()
            for _ in range(choose.randint(1, 20))
        ]
        edge.journal.submit(index, len(some), b"".join(map(source.framing.frame, some)))
        sent += [(source.name, payload) for payload in some]
    return sent


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_gives_what_the_simulation_gives(
    seed: int, session: SparkSession, tmp_path: Path
) -> None:
    choose = random.Random(seed)
    workers = 1 + seed % 3
    reference = ApplicationRef("tests.random_applications", (str(seed),))
    application = reference.load()
    program = Program(application, 8 * workers)
    edge = Edge(tmp_path)
    batches: list[Batch] = []
    session.conf.set("spark.sql.shuffle.partitions", workers)
    sent = sent_to(application, choose, edge)
    job = Job(
        uuid.uuid4().hex,
        reference,
        connector(edge.location),
        program.buckets,
        slots_for(program.buckets, workers),
        readers=workers,
        max_batch_bytes=choose.choice([300, 1_500, 1 << 20]),
        idle_wait_s=0.05,
    )
    running = query.start(session, program, job, tmp_path / "checkpoint", batches.append)
    try:
        wait_until(lambda: running.failure() or not edge.journal.backlog, "the end of the backlog")
        assert running.failure() is None
        made = {sink.name: edge.outputs(n) for n, sink in enumerate(application.sinks)}
    finally:
        running.stop()
        edge.close()
    due = simulate(application, sent)
    assert {name: Counter(outputs) for name, outputs in made.items()} == {
        name: Counter(outputs) for name, outputs in due.by_sink.items()
    }
    assert sum(batch.tally.set_aside for batch in batches) == len(due.set_aside)
    assert sum(sum(b.tally.late.values()) for b in batches) == len(due.late)
