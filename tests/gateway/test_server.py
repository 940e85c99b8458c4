"""The gateway's internal API: a client, through a Unix socket, at journal, outbox and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.gateway.harness import NOWHERE, U32, Authority, outputs, sink, source
from tests.gateway.stand_in import StandIn, journal_of
from tests.gateway.store_loop import Loop
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.files.sink import FileSink
from wallaroo.connectors.files.source import FileSource
from wallaroo.connectors.python.resolve import CustomSink, CustomSource
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway import certificates
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import SourceStatus
from wallaroo.gateway.server import Gateway
from wallaroo.gateway.settings import GatewaySettings, TrafficSettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application, Branch, Pipeline
from wallaroo.model.endpoints import Sink, Source
from wallaroo.system.tls import TLSFiles
from wallaroo.wire.records import FailedMessage, Tally


class RunningGateway:
    """A gateway of two sources and one sink, a client of it, and the sink's receiver.

    Behind them come sources and sinks that are read and written.
    """

    def __init__(
        self,
        directory: Path,
        sources: Sequence[Source] = (),
        sinks: Sequence[Sink] = (),
        tls: TLSFiles | None = None,
    ) -> None:
        self.receiver = socket.create_server(("127.0.0.1", 0))
        self.receiver.settimeout(PATIENCE_S)
        receiver = sink(self.receiver.getsockname())
        one = Pipeline("one", source("one"), Branch(()), (receiver, *sinks), NOWHERE)
        two = Pipeline("two", source("two"), Branch(()), (), NOWHERE)
        more = [Pipeline(made.name, made, Branch(()), (), NOWHERE) for made in sources]
        application = Application("app", (one, two, *more), {})
        location = f"unix:{directory}/gateway.sock"
        traffic = TrafficSettings(source_tls=tls or TLSFiles())
        settings = GatewaySettings(directory, location, traffic=traffic)
        self._loop = Loop()
        self._gateway = self._loop.run(self._start(application, settings))
        self._ended = asyncio.run_coroutine_threadsafe(
            self._gateway.run_until_ended(), self._loop.loop
        )
        self.gateway_client = GatewayClient(location)
        self.engine = StandIn(location)
        self.directory, self.location = directory, location

    async def _start(self, application: Application, settings: GatewaySettings) -> Gateway:
        gateway = Gateway(application, settings, {}, ApplicationRef("app"))
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
        self.engine.close()
        self._loop.loop.call_soon_threadsafe(self._gateway.end)
        self._ended.result(PATIENCE_S)
        self._loop.close()
        self.receiver.close()


@pytest.fixture
def running() -> Iterator[RunningGateway]:
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a Unix socket must be
        gateway = RunningGateway(Path(directory))
        yield gateway
        gateway.close()


@pytest.fixture
def client(running: RunningGateway) -> GatewayClient:
    return running.gateway_client


def test_published_outputs_reach_the_receiver(
    running: RunningGateway, client: GatewayClient
) -> None:
    running.engine.publish(outputs(b"a\n", b"b\n"))
    connection, _ = running.receiver.accept()
    with connection:
        connection.settimeout(PATIENCE_S)
        assert connection.recv(4, socket.MSG_WAITALL) == b"a\nb\n"
        wait_until(lambda: client.status().delivered == 2)
    assert (client.status().published, client.status().undelivered) == (2, 0)


def test_the_status_counts_what_was_reported(
    running: RunningGateway, client: GatewayClient
) -> None:
    failed = FailedMessage("one", "s", "f.py:1", "E: é", "b'm'")
    unknown = {("state", "'k'"): 2}
    tally = Tally(1, [failed], unknown_keys=unknown, failures={failed.kind: 1})
    running.engine.publish(tally=tally)
    assert (client.status().set_aside, client.status().unknown_key) == (1, 2)


def test_what_is_published_is_no_backlog(running: RunningGateway, client: GatewayClient) -> None:
    running.send(b"a", b"b", b"c")
    assert client.status().backlog == 3
    with contextlib.closing(StandIn(running.location, ticks=False)) as engine:
        engine.publish()
    assert client.status().backlog == 0


def test_a_gateway_that_is_not_there_fails_with_a_sentence(tmp_path: Path) -> None:
    client = GatewayClient(f"unix:{tmp_path}/none.sock", patience_s=0.2)
    with pytest.raises(RuntimeFailure, match="gateway call 'status' failed after 0 s: "):
        client.status()


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
    assert sum(chunk.messages for chunk in journal_of(running.directory)) == 1_500


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
        running.engine.publish(outputs(b"a", b"b", to=1))
        wait_until(lambda: not client.status().undelivered)
        assert (tmp_path / "out").read_bytes() == b"a\nb\n"
        wait_until(lambda: client.status().sources[3].problem)
        *_, lines, failing = client.status().sources
        assert lines == SourceStatus("lines", f"file {tmp_path}/in", 3)
        assert (failing.where, failing.ended, failing.accepted) == ("file /", False, 0)
        assert failing.problem == "IsADirectoryError: [Errno 21] Is a directory: '/'"
        client.stop_accepting()
        with (tmp_path / "in").open("ab") as file:
            file.write(b"4\n")
        running.close()
        running = RunningGateway(Path(directory), [read], [written])
        client = running.gateway_client
        assert client.wait_until_accepted("lines", 4, PATIENCE_S)
        *_, chunk = journal_of(Path(directory))
        assert U32.split(chunk.data) == [b"4"]
        running.close()


def test_senders_see_a_renewed_certificate_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_RENEW_S", 0.01)
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")

    def is_trusted(running: RunningGateway, authority: Authority) -> bool:
        context = TLSFiles(authorities=authority.file).connecting()
        assert context is not None
        with running.connect() as connection:
            try:
                secured = context.wrap_socket(connection, server_hostname="127.0.0.1")
            except ssl.SSLCertVerificationError:
                return False
            secured.close()
            return True

    with tempfile.TemporaryDirectory() as directory:
        running = RunningGateway(Path(directory), tls=old.files())
        assert is_trusted(running, old)
        new.files()  # in the same files
        wait_until(lambda: is_trusted(running, new))
        assert not is_trusted(running, old)
        running.close()
