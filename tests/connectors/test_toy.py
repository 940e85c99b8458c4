"""A connector is one folder: the runtime runs one of which it has never heard, `toy`."""

from __future__ import annotations

import functools
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import wallaroo
from tests.connectors.toy import queues
from tests.connectors.toy import source as toy_source
from tests.connectors.toy.config import QueueSinkConfig, QueueSourceConfig
from tests.gateway.harness import opened, outputs
from tests.gateway.stand_in import journal_of
from tests.gateway.test_server import RunningGateway
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.api.builder import DeclaredApplication
from wallaroo.connectors import threads
from wallaroo.errors import ApplicationError
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.connectors import SourceConnectors
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate
from wallaroo.wire.records import FailedMessage, Tally

ALL = Choice()


@wallaroo.computation(name="shout")
def shout(message: str) -> str:
    return message.upper()


@wallaroo.encoder
def encode(message: str) -> bytes:
    return message.encode()


def declared(*sinks: QueueSinkConfig[str]) -> DeclaredApplication:
    begun = wallaroo.source("words", QueueSourceConfig("in", bytes.decode)).to(shout)
    return wallaroo.build_application("toy", begun.to_sinks(sinks))


@pytest.fixture(autouse=True)
def empty_queues(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "IDLE_WAIT_S", 0.01)
    queues.clear()
    yield
    queues.clear()


def test_a_gateway_runs_messages_through_it() -> None:
    application = resolve(declared(QueueSinkConfig("out", encode)))
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a Unix socket must be
        running = RunningGateway(Path(directory), application.sources, application.sinks)
        client = running.gateway_client
        running.send(b"by TCP")
        for message in (b"one", b"", b"three"):
            queues["in"].put(message)
        assert client.wait_until_accepted("words", 3, PATIENCE_S)
        status = client.status()
        assert [source.where for source in status.sources][2:] == ["queue in"]
        assert [source.accepted for source in status.sources] == [1, 0, 3]
        framing = application.sources[0].framing
        kept = journal_of(running.directory)
        data = b"".join(chunk.data for chunk in kept if chunk.source == 2)
        assert framing.split(data) == [b"one", b"", b"three"]
        failed = FailedMessage("words", "shout", "app.py:1", "E: x", "b'three'", arrival=3)
        running.engine.publish(outputs(b"ONE", b"", to=1), tally=Tally(1, [], [failed]))
        wait_until(lambda: not client.status().undelivered, "the delivery")
        assert [queues["out"].get(timeout=PATIENCE_S) for _ in range(2)] == [b"ONE", b""]
        assert [letter.payload for letter in client.letters(ALL, 10)] == [b"three"]
        assert client.replay_letters(ALL) == 1
        assert client.wait_until_accepted("words", 4, PATIENCE_S)
        client.stop_accepting()
        running.close()


def test_a_full_journal_tells_it_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = threading.Event()

    class Waiting(threads.SourceThreads):
        def on_room(self) -> None:
            room.set()

    opening = functools.partial(Waiting, toy_source.QueueReader)
    monkeypatch.setattr(toy_source, "open_sources", opening)
    sources = resolve(declared(QueueSinkConfig("out", encode))).sources
    with opened(tmp_path, JournalLimits(disk_bytes=10)) as store:
        journal, context = store.journal, ConnectorContext(store.journal, store.outbox)
        journal.on_room = SourceConnectors(context, sources).on_room
        assert not journal.submit(0, 1, b"more than ten bytes")
        assert journal.flush(PATIENCE_S)
        journal.consume(1)
        assert room.wait(PATIENCE_S)


def test_a_test_of_an_application_uses_it() -> None:
    application = declared(QueueSinkConfig("out", encode))
    assert simulate(application, [("words", b"hello")]).outputs == [b"HELLO"]


def test_its_mistakes_are_told_with_the_place() -> None:
    first, second = QueueSinkConfig("out", encode), QueueSinkConfig("out", encode)
    with pytest.raises(ApplicationError) as raised:
        resolve(declared(first, second))
    assert raised.value.problems == (
        f"test_toy.py:{second.place.line}: pipeline 'words': queue out has a sink already",
    )
