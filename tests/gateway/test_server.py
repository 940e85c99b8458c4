"""The gateway's internal API: a client, through a Unix socket, at journal, outbox and sockets."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.gateway.harness import NOWHERE, U32, Loop, messages, outputs, sink, source
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.files.sink import FileSink
from wallaroo.connectors.files.source import FileSource
from wallaroo.connectors.python.resolve import CustomSink, CustomSource
from wallaroo.connectors.tcp import sink as tcp_sink
from wallaroo.dataflow.records import JOURNAL, FailedMessage, Tally
from wallaroo.engine.gateway_api import StateChange
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.gateway.internal_api.status import SourceStatus
from wallaroo.gateway.server import Gateway
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.model.application import Application, Branch, Pipeline
from wallaroo.model.endpoints import Sink, Source


class RunningGateway:
    """A gateway of two sources and one sink, a client of it, and the sink's receiver.

    Behind them come sources and sinks that are read and written.
    """

    def __init__(
        self, directory: Path, sources: Sequence[Source] = (), sinks: Sequence[Sink] = ()
    ) -> None:
        self.receiver = socket.create_server(("127.0.0.1", 0))
        self.receiver.settimeout(PATIENCE_S)
        receiver = sink(self.receiver.getsockname())
        one = Pipeline("one", source("one"), Branch(()), (receiver, *sinks), NOWHERE)
        two = Pipeline("two", source("two"), Branch(()), (), NOWHERE)
        more = [Pipeline(made.name, made, Branch(()), (), NOWHERE) for made in sources]
        application = Application("app", (one, two, *more), {})
        location = f"grpc+unix://{directory}/gateway.sock"
        self._loop = Loop()
        self._gateway = self._loop.run(
            self._start(application, GatewaySettings(directory, location))
        )
        self._ended = asyncio.run_coroutine_threadsafe(
            self._gateway.run_until_ended(), self._loop.loop
        )
        self.client = Connector(location)()
        assert isinstance(self.client, GatewayClient)
        self.gateway_client: GatewayClient = self.client

    async def _start(self, application: Application, settings: GatewaySettings) -> Gateway:
        gateway = Gateway(application, settings)
        await gateway.start()
        return gateway

    def connect(self, number: int = 0) -> socket.socket:
        host, _, port = self.gateway_client.status().sources[number].where.rpartition(":")
        return socket.create_connection((host, int(port)), PATIENCE_S)

    def send(self, *payloads: bytes, to: int = 0) -> None:
        """Send *payloads*, and wait until they are accepted."""
        status = self.gateway_client.status().sources[to]
        with self.connect(to) as connection:
            connection.sendall(b"".join(map(U32.frame, payloads)))
            assert self.gateway_client.wait_until_accepted(
                status.name, status.accepted + len(payloads), PATIENCE_S
            )

    def close(self) -> None:
        self.gateway_client.close()
        self._loop.loop.call_soon_threadsafe(self._gateway.end)
        self._ended.result(PATIENCE_S)
        self._loop.close()
        self.receiver.close()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningGateway]:
    monkeypatch.setattr(tcp_sink, "_IDLE_WAIT_S", 0.05)
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a Unix socket must be
        gateway = RunningGateway(Path(directory))
        yield gateway
        gateway.close()


@pytest.fixture
def client(running: RunningGateway) -> GatewayClient:
    return running.gateway_client


def test_a_message_is_read_with_its_number_source_and_time(
    running: RunningGateway, client: GatewayClient
) -> None:
    running.send(b"hello", to=1)
    ((chunk,),) = client.read(messages(0, 1))
    assert (chunk.first, chunk.messages, chunk.source) == (0, 1, 1)
    assert chunk.data == U32.frame(b"hello")
    assert chunk.arrived_ns > 0


def test_what_is_asked_for_is_read_in_order(running: RunningGateway, client: GatewayClient) -> None:
    for number in range(5):
        running.send(b"%d" % number)
    chunks = [chunk for block in client.read(messages(1, 4)) for chunk in block]
    assert [U32.split(chunk.data) for chunk in chunks] == [[b"1"], [b"2"], [b"3"]]


def test_asking_for_the_latest_waits_for_a_message(
    running: RunningGateway, client: GatewayClient
) -> None:
    answers: list[Mapping[str, int]] = []
    asking = threading.Thread(
        target=lambda: answers.append(client.latest({}, 1000, 1 << 30, PATIENCE_S).end)
    )
    asking.start()
    running.send(b"hello")
    asking.join(PATIENCE_S)
    assert answers == [{JOURNAL: 1}]


def test_where_nothing_comes_the_latest_is_where_one_is(client: GatewayClient) -> None:
    assert client.latest({JOURNAL: 0}, 1000, 1 << 30, 0.01).end[JOURNAL] == 0


def test_a_plan_covers_the_batch(running: RunningGateway, client: GatewayClient) -> None:
    running.send(*[bytes(200_000)] * 4)
    end = client.latest({JOURNAL: 0}, 1 << 30, 1 << 30, 0.0).end[JOURNAL]
    ranges = client.plan({JOURNAL: 0}, {JOURNAL: end}, 2)
    assert (ranges[0].start, ranges[-1].end) == ((JOURNAL, 0), 4)


def test_published_outputs_reach_the_receiver(
    running: RunningGateway, client: GatewayClient
) -> None:
    client.stage("run", 0, "t", [outputs(b"a\n", b"b\n")], Tally())
    client.publish("run", 0, ["t"], {JOURNAL: 0})
    connection, _ = running.receiver.accept()
    with connection:
        connection.settimeout(PATIENCE_S)
        assert connection.recv(4, socket.MSG_WAITALL) == b"a\nb\n"
        wait_until(lambda: client.status().delivered == 2)
    assert (client.status().published, client.status().undelivered) == (2, 0)


def test_publishing_gives_what_tasks_reported_once(client: GatewayClient) -> None:
    failed = FailedMessage("p", "s", "f.py:1", "E: é", "b'm'")
    unknown = {("state", "'k'"): 2}
    tally = Tally(1, [failed], unknown_keys=unknown, failures={failed.kind: 1})
    client.stage("run", 0, "t", [], tally)
    assert client.publish("run", 0, ["t"], {JOURNAL: 0}) == tally
    assert client.publish("run", 0, ["t"], {JOURNAL: 0}) is None
    assert (client.status().set_aside, client.status().unknown_key) == (1, 2)


def test_a_published_batch_is_no_backlog(running: RunningGateway, client: GatewayClient) -> None:
    running.send(b"a", b"b", b"c")
    assert client.status().backlog == 3
    client.plan({JOURNAL: 0}, {JOURNAL: 3}, 1)
    client.stage("run", 0, "t", [], Tally())
    client.publish("run", 0, ["t"], {JOURNAL: 3})
    assert client.status().backlog == 0


def test_reading_messages_that_are_not_there_fails_with_a_sentence(
    running: RunningGateway, client: GatewayClient
) -> None:
    running.send(b"a", b"b")
    with pytest.raises(RuntimeFailure, match="messages 2 to 4 are not in the journal"):
        list(client.read(messages(0, 5)))


def test_trimmed_messages_take_no_room(running: RunningGateway, client: GatewayClient) -> None:
    running.send(b"a", b"b")
    assert client.status().backlog_bytes == 10
    client.consume({JOURNAL: 2})
    wait_until(lambda: client.status().backlog_bytes == 0)


def test_reading_trimmed_messages_fails_with_a_sentence(
    running: RunningGateway, client: GatewayClient
) -> None:
    running.send(b"a", b"b")
    client.consume({JOURNAL: 2})
    with pytest.raises(RuntimeFailure, match="messages from 0 on were requested, but those before"):
        list(client.read(messages(0, 2)))


def test_publishing_what_nobody_staged_fails_with_a_sentence(client: GatewayClient) -> None:
    with pytest.raises(
        RuntimeFailure, match="gateway call 'publish' failed: nothing is staged under t"
    ) as e:
        client.publish("run", 0, ["t"], {JOURNAL: 0})
    assert "\n" not in str(e.value)


def test_changes_of_state_come_back_as_they_were_staged(client: GatewayClient) -> None:
    changes = [StateChange("totals", bucket, bytes([bucket])) for bucket in range(3)]
    client.stage("run", 0, "t", [], Tally(), changes[:2])
    client.stage("run", 0, "t", [outputs(b"a")], Tally(), changes[2:])
    assert list(client.changes("run", -1)) == []
    client.publish("run", 0, ["t"], {JOURNAL: 0})
    found = [change for block in client.changes("run", -1) for change in block]
    assert [(change.epoch, change.change) for change in found] == [(0, one) for one in changes]
    client.forget_changes("run", 0)
    assert list(client.changes("run", -1)) == []


def test_a_gateway_that_is_not_there_fails_with_a_sentence(tmp_path: Path) -> None:
    client = GatewayClient(f"grpc+unix://{tmp_path}/none.sock", patience_s=0.2)
    with pytest.raises(RuntimeFailure, match="gateway call 'status' failed after 0 s: "):
        client.status()
    with pytest.raises(RuntimeFailure, match="gateway call 'read' failed after 0 s: "):
        list(client.read(messages(0, 1)))
    with pytest.raises(RuntimeFailure, match="gateway call 'stage' failed after 0 s: "):
        client.stage("run", 0, "t", [outputs(b"a")], Tally())
    client.close()


def test_waiting_for_messages_that_do_not_come_ends(client: GatewayClient) -> None:
    assert not client.wait_until_accepted("one", 1, 0.01)


def test_the_status_tells_sources_and_connections(
    running: RunningGateway, client: GatewayClient
) -> None:
    with running.connect(1):
        wait_until(lambda: client.status().connections == 1)
    wait_until(lambda: client.status().connections == 0)
    one, two = client.status().sources
    assert (one.name, two.name) == ("one", "two")
    assert one.where.startswith("127.0.0.1:")
    assert one.where != two.where


def test_stopping_to_accept_takes_what_was_sent(
    running: RunningGateway, client: GatewayClient
) -> None:
    with running.connect(0) as connection, running.connect(1) as other:
        connection.sendall(U32.frame(b"x") * 1_000)
        other.sendall(U32.frame(b"y") * 500 + b"\0\0")
        client.stop_accepting()
        assert [status.accepted for status in client.status().sources] == [1_000, 500]
    with pytest.raises(ConnectionRefusedError):
        running.connect()
    assert client.latest({JOURNAL: 0}, 1 << 20, 1 << 30, 0.0).end[JOURNAL] == 1_500


def test_sources_that_are_read_and_sinks_that_are_written_stand_beside_the_sockets(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").write_bytes(b"1\n2\n3\n")
    reader = FileSource(tmp_path / "in", None, 100, follow=True)
    written = CustomSink("out", bytes, NOWHERE, FileSink(tmp_path / "out", lines=True))
    with tempfile.TemporaryDirectory() as directory:
        read = CustomSource("lines", U32, bytes, NOWHERE, reader)
        over = CustomSource(
            "over", U32, bytes, NOWHERE, FileSource(Path("/"), U32, 9, follow=False)
        )
        running = RunningGateway(Path(directory), [read, over], [written])
        client = running.gateway_client
        assert client.wait_until_accepted("lines", 3, PATIENCE_S)
        client.stage("run", 0, "t", [outputs(b"a", b"b", to=1)], Tally())
        client.publish("run", 0, ["t"], {JOURNAL: 0})
        wait_until(lambda: not client.status().undelivered)
        assert (tmp_path / "out").read_bytes() == b"a\nb\n"
        wait_until(lambda: client.status().sources[3].problem)
        *_, lines, failing = client.status().sources
        assert lines == SourceStatus("lines", f"file {tmp_path}/in", 3, 3)
        assert (failing.where, failing.ended, failing.accepted) == ("file /", False, 0)
        assert failing.problem == "IsADirectoryError: [Errno 21] Is a directory: '/'"
        client.stop_accepting()
        with (tmp_path / "in").open("ab") as file:
            file.write(b"4\n")
        running.close()
        running = RunningGateway(Path(directory), [read], [written])
        client = running.gateway_client
        assert client.wait_until_accepted("lines", 4, PATIENCE_S)
        ((*_, chunk),) = client.read(messages(0, 4))
        assert U32.split(chunk.data) == [b"4"]
        running.close()
