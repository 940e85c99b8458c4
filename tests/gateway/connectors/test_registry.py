"""A kind of connector that the gateway has never heard of: a queue in memory."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gateway.harness import NOWHERE, messages, outputs
from tests.gateway.test_server import RunningGateway
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.dataflow.records import JOURNAL, FailedMessage, Tally
from wallaroo.gateway.connectors import registry
from wallaroo.gateway.connectors.base import ConnectorContext, SourceConnector, SourceState
from wallaroo.gateway.connectors.registry import ConnectorKind, SourceConnectors, open_sink
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.endpoints import Sink, Source
from wallaroo.wire.framing import Piece

ALL = Choice()


class Marked:
    """Messages without lengths: each begins with a mark."""

    MARK = b"\n>"

    def split(self, data: bytes) -> list[bytes]:
        return data.split(self.MARK)[1:]

    def pieces(self, data: bytes) -> Iterator[Piece]:
        for payload in self.split(data):
            yield Piece(len(self.MARK), self.MARK + payload)


@dataclass(frozen=True)
class QueueSource(Source):
    @property
    def where(self) -> str:
        return "queue in"


@dataclass(frozen=True)
class QueueSink(Sink):
    @property
    def where(self) -> str:
        return "queue out"


class Queues(SourceConnector):
    """What is put into a queue goes to the journal."""

    def __init__(self, sources: Mapping[int, QueueSource], journal: Journal) -> None:
        self._sources = sources
        self._journal = journal
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")

    async def close(self) -> None:
        self.calls.append("close")

    def status(self, index: int) -> SourceState:
        return SourceState(self._sources[index].where, ended="stop" in self.calls)

    def on_room(self) -> None:
        self.calls.append("room")

    def put(self, *messages: bytes) -> bool:
        (index,) = self._sources
        return self._journal.submit(
            index, len(messages), b"".join(Marked.MARK + message for message in messages)
        )


class QueueWriter:
    """Outputs go into a list."""

    problem: str | None = None

    def __init__(self, index: int, outbox: Outbox, delivered: list[bytes]) -> None:
        self._index, self._outbox, self._delivered = index, outbox, delivered
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        position = 0
        while not self._stopping.is_set():
            delivery = self._outbox.next(self._index, position, 0.05)
            if delivery is not None:
                self._delivered.append(delivery.outputs.data)
                position = delivery.position
                self._outbox.delivered(self._index, position)


class Queue:
    """A registered kind, and what gateways have made of it."""

    def __init__(self) -> None:
        self.queues: list[Queues] = []
        self.delivered: list[bytes] = []
        registry.register(
            ConnectorKind("queue", QueueSource, self._open_sources, QueueSink, self._open_sink)
        )

    def _open_sources(
        self, context: ConnectorContext, sources: Mapping[int, QueueSource]
    ) -> SourceConnector:
        self.queues.append(Queues(sources, context.journal))
        return self.queues[-1]

    def _open_sink(self, context: ConnectorContext, index: int, _sink: QueueSink) -> QueueWriter:
        return QueueWriter(index, context.outbox, self.delivered)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setattr(registry, "_KINDS", [*registry._KINDS])
    return Queue()


SOURCE = QueueSource("queue", Marked(), bytes, NOWHERE)
SINK = QueueSink("out", bytes, NOWHERE)


def test_a_gateway_runs_messages_through_a_kind_that_was_registered(queue: Queue) -> None:
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a Unix socket must be
        running = RunningGateway(Path(directory), [SOURCE], [SINK])
        client, (queues,) = running.gateway_client, queue.queues
        running.send(b"by TCP")
        assert queues.put(b"one", b"", b"three")
        assert client.wait_until_accepted("queue", 3, PATIENCE_S)
        status = client.status()
        assert [source.where for source in status.sources][2:] == ["queue in"]
        assert [source.accepted for source in status.sources] == [1, 0, 3]
        chunks = [chunk for block in client.read(messages(0, 4)) for chunk in block]
        assert [SOURCE.framing.split(chunk.data) for chunk in chunks if chunk.source == 2] == [
            [b"one", b"", b"three"]
        ]
        failed = FailedMessage("queue", "step", "app.py:1", "E: x", "b'three'", arrival=3)
        client.stage("run", 0, "t", [outputs(b"a", b"b", to=1)], Tally(1, [], [failed]))
        client.publish("run", 0, ["t"], {JOURNAL: 4})
        wait_until(lambda: not client.status().undelivered, "the delivery")
        assert queue.delivered == [b"ab"]
        assert [letter.payload for letter in client.letters(ALL, 10)] == [b"three"]
        assert client.replay_letters(ALL) == 1
        assert client.wait_until_accepted("queue", 4, PATIENCE_S)
        client.stop_accepting()
        assert client.status().sources[2].ended
        running.close()
        assert queues.calls[:3] == ["start", "stop", "close"]


def test_a_full_journal_tells_its_connector_when_it_has_room(queue: Queue, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", JournalLimits(disk_bytes=10))
    context = ConnectorContext(journal, Outbox(tmp_path / "outbox.db", 1 << 20))
    connectors = SourceConnectors(context, [SOURCE])
    journal.on_room = connectors.on_room
    (queues,) = queue.queues
    assert not queues.put(b"more than ten bytes")
    assert journal.flush(PATIENCE_S)
    journal.consume(1)
    wait_until(lambda: queues.calls == ["room"], "room in the journal")
    journal.close()
    context.outbox.close()


def test_what_is_of_no_registered_kind_is_refused_by_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    context = ConnectorContext(journal, Outbox(tmp_path / "outbox.db", 1 << 20))
    with pytest.raises(LookupError, match="no connector is registered for source 'queue', a Queue"):
        SourceConnectors(context, [SOURCE])
    with pytest.raises(LookupError, match="no connector is registered for sink 'out', a QueueSink"):
        open_sink(context, 0, SINK)
    journal.close()
    context.outbox.close()
