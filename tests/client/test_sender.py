"""`wallaroo.client.Sender` against a real gateway: killed, stopped, away, replaced."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gateway.harness import U32, RunningListener, source
from tests.gateway.stand_in import journal_of
from tests.helpers import PATIENCE_S, wait_until
from tests.run.test_gateway_process import Running
from wallaroo.cli.main import main
from wallaroo.client import Sender
from wallaroo.errors import RuntimeFailure, UsageError


@pytest.fixture
def running() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as directory:
        made = Running(Path(directory))
        yield made
        made.close()


def payloads(running: Running) -> list[bytes]:
    return [payload for chunk in journal_of(running.directory) for payload in U32.split(chunk.data)]


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_messages_get_numbers_and_are_accepted_in_order(running: Running) -> None:
    with Sender(f"127.0.0.1:{running.port}", "s") as sender:
        assert [sender.send(payload) for payload in numbered(1, 1001)] == list(range(1, 1001))
        sender.flush()
        assert sender.acknowledged == 1000
    assert payloads(running) == numbered(1, 1001)


def test_a_message_goes_out_without_being_followed_by_another(running: Running) -> None:
    with Sender(f"127.0.0.1:{running.port}", "s") as sender:
        for number in range(1, 4):
            sender.send(b"x")
            sender.flush()
            assert sender.acknowledged == number


def test_gateways_that_are_killed_in_mid_stream_lose_and_double_nothing(running: Running) -> None:
    count = 200_000

    def send() -> None:
        with Sender(f"127.0.0.1:{running.port}", "s") as sender:
            for payload in numbered(0, count):
                sender.send(payload)

    sending = threading.Thread(target=send)
    sending.start()
    for share in (10, 3, 2):
        (status,) = running.client.status().sources
        assert running.client.wait_until_accepted(status.name, count // share, PATIENCE_S)
        running.kill()
    sending.join(PATIENCE_S)
    assert payloads(running) == numbered(0, count)


def test_a_sender_that_was_killed_goes_on_where_its_stream_ends(running: Running) -> None:
    address = f"127.0.0.1:{running.port}"
    program = (
        "import os, sys; from wallaroo.client import Sender\n"
        "with Sender(sys.argv[1], 's') as sender:\n"
        "    for number in range(sender.acknowledged, 10_000):\n"
        "        sender.send(b'%d' % number)\n"
        "        if number == 5_000 and len(sys.argv) > 2:\n"
        "            os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, address, "die"], check=False)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, "-c", program, address], check=True)
    assert payloads(running) == numbered(0, 10_000)


def test_a_gateway_that_stays_away_is_told_with_what_is_not_acknowledged(running: Running) -> None:
    address = f"127.0.0.1:{running.port}"
    sender = Sender(address, "s", timeout_s=1.0)
    sender.send(b"a")
    sender.flush()
    running.process.stop()
    sender.send(b"b")
    with pytest.raises(RuntimeFailure) as told:
        sender.flush()
    assert str(told.value) == (
        f"{address} accepted nothing for 1 s: Connection refused; "
        "1 message(s) after number 1 are not acknowledged"
    )
    sender.close()
    with (
        pytest.raises(RuntimeFailure, match="accepted nothing"),
        Sender(address, "s", timeout_s=0.1),
    ):
        pass


def test_who_is_no_source_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with (
            pytest.raises(RuntimeFailure, match="the answer violates the protocol"),
            Sender(address, "s", timeout_s=0.5),
        ):
            pass
        listener.shutdown(socket.SHUT_RDWR)


def test_a_stream_is_used_by_one_sender_at_a_time(tmp_path: Path) -> None:
    with RunningListener(tmp_path, [source()]) as running:
        address = "{}:{}".format(*running.addresses[0])
        with Sender(address, "s") as first:
            first.send(b"a")
            first.flush()
            with Sender(address, "s") as second:
                second.send(b"b")
                second.flush()
            wait_until(lambda: first.refusal, "the refusal")
            with pytest.raises(RuntimeFailure, match="was opened on a new connection"):
                first.send(b"c")
        assert running.payloads() == [b"a", b"b"]


def test_a_gateway_that_has_forgotten_the_stream_is_told(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with RunningListener(tmp_path / "one", [source()]) as first:
        host, port = first.addresses[0]
        sender = Sender(f"{host}:{port}", "s")
        sender.send(b"a")
        sender.flush()
    sender.send(b"b")
    with (
        RunningListener(tmp_path / "two", [source(port=port)]),
        pytest.raises(RuntimeFailure, match="it only has the messages up to 0"),
    ):
        sender.flush()
    sender.close()


def test_addresses_and_streams_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="'nowhere' is not an address"):
        Sender("nowhere", "s")
    with pytest.raises(UsageError, match="'' is not a valid stream name"):
        Sender("127.0.0.1:1", "")


def test_send_goes_on_behind_what_is_accepted(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    arguments = ["send", str(file), "--to", f"127.0.0.1:{running.port}", "--framing", "lines"]
    file.write_bytes(b"a\nb\n")
    first = CliRunner().invoke(main, [*arguments, "--acked", "day"])
    assert first.exit_code == 0, first.output
    assert "sent 2 messages" in first.output
    file.write_bytes(b"a\nb\nc\n")
    second = CliRunner().invoke(main, [*arguments, "--acked", "day"])
    assert "2 messages of 'day' were already accepted" in second.output
    assert "sent 1 message, " in second.output
    assert payloads(running) == [b"a", b"b", b"c"]


def test_send_does_not_acknowledge_what_it_cannot_tell_apart(tmp_path: Path) -> None:
    arguments = ["send", "-", "--to", "127.0.0.1:1", "--framing", "raw", "--acked", "s"]
    refused = CliRunner().invoke(main, arguments, input=b"x")
    assert refused.exit_code == 2
    assert "--acked requires messages, which --framing raw does not separate" in refused.output
