"""TLS on the ports of sources and sinks, with certificates of both sides."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from tests.connectors.tcp.speaker import Speaker
from tests.gateway.harness import (
    U32,
    Authority,
    RunningListener,
    finished,
    outputs,
    publish,
    sink,
    source,
)
from tests.gateway.store_loop import StoreLoop
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.cli.main import main
from wallaroo.client import Sender
from wallaroo.connectors.tcp import source as module
from wallaroo.connectors.tcp.sink import TCPSender
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.limits import SourceLimits
from wallaroo.system.tls import TLSFiles
from wallaroo.wire.numbered import NUMBER, SequenceCutter


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def listening(tmp_path: Path, authority: Authority) -> Iterator[RunningListener]:
    tls = authority.files(trusts=authority).serving()
    with RunningListener(tmp_path, [source()], tls=tls) as running:
        yield running


def address(running: RunningListener) -> str:
    host, port = running.addresses[0]
    return f"{host}:{port}"


def test_a_sender_with_a_certificate_is_heard(
    listening: RunningListener, authority: Authority, tmp_path: Path
) -> None:
    tls = authority.files(trusts=authority).connecting()
    with Sender(address(listening), "stream", tls=tls) as sender:
        for number in range(5_000):
            sender.send(b"%d" % number)
    assert listening.payloads() == [b"%d" % number for number in range(5_000)]


def test_a_stream_is_taken_over_by_no_other_certificate(
    listening: RunningListener, authority: Authority
) -> None:
    first = authority.files(trusts=authority).connecting()
    other = authority.files(trusts=authority).connecting()
    with Speaker(listening.addresses[0], "s", first) as speaker:
        speaker.send(1, b"a")
        speaker.acknowledged(1)
        with Speaker(listening.addresses[0], "s", other) as stranger:
            assert "the stream 's' belongs to the certificate of" in stranger.refused()
        speaker.send(2, b"b")  # it is open still
        speaker.acknowledged(2)
    with Speaker(listening.addresses[0], "s", first) as speaker:
        speaker.acknowledged(2)


def test_send_speaks_tls(listening: RunningListener, authority: Authority, tmp_path: Path) -> None:
    files, lines = authority.files(trusts=authority), tmp_path / "lines"
    lines.write_text("a\nb\n")
    options = ("--tls-ca", files.authorities, "--tls-cert", files.certificate, "--tls-key")
    to = ("--to", address(listening), "--framing", "lines")
    arguments = ["send", lines, *to, *options, files.key]
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    listening.wait_for(2)
    assert listening.payloads() == [b"a", b"b"]


def test_who_shows_no_certificate_of_the_right_authority_is_not_heard(
    listening: RunningListener, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    stranger = other.files(trusts=authority).connecting()
    with pytest.raises(RuntimeFailure, match="accepted nothing"):  # noqa: SIM117
        with Sender(address(listening), "stream", tls=stranger, timeout_s=0.5) as sender:
            sender.send(b"hello")
    with socket.create_connection(listening.addresses[0], PATIENCE_S) as plain:
        plain.sendall(U32.frame(b"hello"))
        plain.settimeout(PATIENCE_S)
        while plain.recv(4096):
            pass
    assert listening.journal.end == 0


def test_a_sender_does_not_talk_to_whom_it_does_not_trust(
    listening: RunningListener, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    distrusting = authority.files(trusts=other).connecting()
    with pytest.raises(RuntimeFailure, match=r"certificate|issuer"):  # noqa: SIM117
        with Sender(address(listening), "stream", tls=distrusting, timeout_s=0.5) as sender:
            sender.send(b"hello")


def test_who_does_not_begin_tls_holds_a_place_and_is_cut_off(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 2.0)
    limits = SourceLimits(connections_per_peer=2)
    tls = authority.files(trusts=authority)
    with (
        RunningListener(tmp_path, [source()], senders=limits, tls=tls.serving()) as running,
        capture_logs() as logs,
    ):
        where = running.addresses[0]
        silent = [socket.create_connection(where, PATIENCE_S) for _ in range(2)]
        with socket.create_connection(where, PATIENCE_S) as third:
            assert third.recv(1) == b""
        for connection in silent:
            with connection:
                assert connection.recv(1) == b""
        with Sender(address(running), "stream", tls=tls.connecting()) as sender:
            sender.send(b"hello")
    assert running.journal.accepted == {0: 1}
    reasons = [log["reason"] for log in logs]
    assert reasons[0] == "2 connections from 127.0.0.1 are open"
    assert sum(reason.startswith("TLS did not begin") for reason in reasons) == 2


def test_a_stop_while_senders_begin_ends(listening: RunningListener) -> None:
    with socket.create_connection(listening.addresses[0], PATIENCE_S):
        listening.stop()


def test_a_stop_does_not_take_what_is_secret_for_frames(
    listening: RunningListener, authority: Authority
) -> None:
    tls = authority.files(trusts=authority).connecting()
    with Speaker(listening.addresses[0], tls=tls) as speaker:
        speaker.acknowledged(0)

        async def send_and_stop() -> None:
            speaker.send(1, b"late")  # nobody reads meanwhile
            await listening.listener.stop()

        listening.loop.run(send_and_stop())
        listening.loop.run(listening.listener.close())
        assert speaker.socket.recv(1) == b""  # and no refusal: it may come again
    assert listening.journal.end == 0


@pytest.mark.parametrize("numbered", [False, True])
def test_outputs_go_to_a_receiver_with_a_certificate(
    tmp_path: Path, authority: Authority, numbered: bool
) -> None:
    tls = authority.files(trusts=authority)
    serving, connecting = tls.serving(), tls.connecting()
    assert serving is not None
    running = StoreLoop(tmp_path)
    outbox = running.store.outbox
    made = [b"%d;" % number for number in range(1_000)]
    publish(outbox, finished(1, outputs(*made)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        to = sink(listener.getsockname())
        if numbered:
            to = type(to)(to.name, to.encode, to.place, to.host, to.port, sequenced=True)
        context = ConnectorContext(running.store.journal, outbox, sink_tls=connecting)
        delivering = TCPSender(context, 0, to, running.loop)
        accepted, _ = listener.accept()
        with serving.wrap_socket(accepted, server_side=True) as connection:
            assert connection.getpeercert() is not None
            take(connection, b"".join(made), numbered)
            wait_until(lambda: outbox.undelivered == 0, "delivery")
            delivering.stop()
    running.close()


def take(connection: ssl.SSLSocket, due: bytes, numbered: bool) -> None:
    received, cutter = b"", SequenceCutter({})
    while len(received) < len(due):
        data = connection.recv(4096)
        received += b"".join(cutter.feed(data)) if numbered else data
        if numbered:
            connection.sendall(NUMBER.pack(cutter.last))
    assert received == due


def test_files_that_cannot_be_used_are_named(tmp_path: Path, authority: Authority) -> None:
    files = authority.files()
    missing = tmp_path / "missing.pem"
    with pytest.raises(UsageError, match=r"missing.pem cannot be used.*No such file"):
        TLSFiles(authorities=missing).connecting()
    with pytest.raises(UsageError, match=r"certificate.pem with the key .*authority.pem"):
        TLSFiles(files.certificate, authority.file).serving()
    with pytest.raises(UsageError, match="add --in-tls-cert"):
        TLSFiles(authorities=authority.file).serving()
    with pytest.raises(UsageError, match="trusted authorities"):
        TLSFiles(certificate=files.certificate, key=files.key).connecting()
