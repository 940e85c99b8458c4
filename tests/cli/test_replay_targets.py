"""`wallaroo replay --to`: outputs of recorded messages, sent to receivers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_replay import TWO
from tests.helpers import PATIENCE_S
from tests.history.harness import Recorded
from wallaroo.cli import replay_targets
from wallaroo.cli.main import main
from wallaroo.cli.options import application_without_addresses
from wallaroo.wire.numbered import NUMBER, SequenceCutter

BYTES = b"\xff\xfe\0not text\n"
HALF_MIB = b"x" * (512 * 1024)


class Receiver:
    """A port with one connection, and what is done with it; a context manager.

    Args:
        serve: Returns what it has received.
    """

    def __init__(self, serve: Callable[[socket.socket], bytes]) -> None:
        self._listener, self._serve = socket.socket(), serve
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self._listener.listen()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_over = threading.Event()
        self._received = b""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.is_over.set()
        self._thread.join()
        self._listener.close()

    @property
    def received(self) -> bytes:
        self._thread.join()
        return self._received

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            self._received = self._serve(connection)


def takes_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def sends_no_more(connection: socket.socket) -> bytes:
    connection.sendall(b"hello")
    connection.shutdown(socket.SHUT_WR)
    return takes_all(connection)


def resets(connection: socket.socket) -> bytes:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return b""


def acknowledges(connection: socket.socket, most: int = 1 << 60) -> bytes:
    cutter, outputs = SequenceCutter({}), []
    while piece := connection.recv(1 << 16):
        outputs += cutter.feed(piece)
        answer = NUMBER.pack(min(cutter.last, most))
        connection.sendall(answer[:3])
        connection.sendall(answer[3:])
    return b"".join(outputs)


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Callable[..., Result]]:
    """Makes a log of outputs for two sinks, and returns how to replay it."""

    def make(*payloads: tuple[str, bytes], code: str = TWO) -> Callable[..., Result]:
        app, state = tmp_path / "two.py", tmp_path / "state"
        app.write_text(code)
        state.mkdir()
        log = Recorded(state, application_without_addresses(str(app), ()))
        for name, payload in payloads:
            log.run([(name, payload)])
        log.close()

        def replay(*arguments: object) -> Result:
            asked = ["replay", str(app), *map(str, arguments), "--state-dir", str(state)]
            return CliRunner().invoke(main, asked)

        return replay

    return make


@pytest.mark.parametrize("serve", [takes_all, sends_no_more])
def test_a_receiver_gets_what_the_sink_sent(
    recorded: Callable[..., Callable[..., Result]],
    serve: Callable[[socket.socket], bytes],
    tmp_path: Path,
) -> None:
    replay = recorded(("a/b", b"one;"), ("a b", b"two;"), ("a/b", BYTES), ("a/b", HALF_MIB))
    with Receiver(serve) as receiver:
        done = replay(tmp_path / "again", "--to", f"a/b@{receiver.address}")
        assert done.exit_code == 0, done.output
        assert receiver.received == b"one;" + BYTES + HALF_MIB
    (file,) = (tmp_path / "again").iterdir()
    assert file.read_bytes() == b"two;"
    assert done.stderr.splitlines() == [
        "4 messages run again",
        f"3 outputs of sink 'a/b' sent to {receiver.address}",
        f"1 output in {file}",
    ]


def test_outputs_of_other_sinks_are_left_out_without_a_directory(
    recorded: Callable[..., Callable[..., Result]],
) -> None:
    replay = recorded(("a/b", b"one;"), ("a b", b"two;"), ("a/b", b"three;"))
    with Receiver(takes_all) as receiver:
        done = replay("--to", f"a b@{receiver.address}", "--end", "1")
        assert receiver.received == b"two;"
    assert done.stderr.splitlines()[1] == (
        "1 output of sink 'a/b' left out: it has no --to, and there is no DIRECTORY"
    )


def test_a_receiver_gets_nothing_if_the_range_has_nothing(
    recorded: Callable[..., Callable[..., Result]],
) -> None:
    replay = recorded(("a/b", b"one;"))
    with Receiver(takes_all) as receiver:
        done = replay("--to", f"a/b@{receiver.address}", "--begin", "7")
        assert receiver.received == b""
    assert done.exit_code == 2
    assert "no processed message is in this range" in done.stderr


def test_a_receiver_that_is_not_there_or_resets_is_named(
    recorded: Callable[..., Callable[..., Result]], tmp_path: Path
) -> None:
    replay = recorded(("a/b", b"one;"), ("a b", b"two;"))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        done = replay(tmp_path / "again", "--to", f"a b@{address}")
    assert done.exit_code == 1
    assert f"Error: sink 'a b': cannot connect to {address}: Connection refused; is" in done.stderr
    assert not (tmp_path / "again").exists()
    done = replay("--to", "a b@nowhere.invalid:1")
    assert "sink 'a b': cannot connect to nowhere.invalid:1: the host 'nowh" in done.stderr
    with Receiver(resets) as receiver:
        done = replay("--to", f"a b@{receiver.address}")
    lost = f"{receiver.address} closed the connection, and may lack the last of 1 output"
    early = f"cannot connect to {receiver.address}: Connection reset by peer"
    assert done.stderr.startswith((f"Error: sink 'a b': {lost}", f"Error: sink 'a b': {early}"))
    assert done.exit_code == 1


def test_a_receiver_that_does_not_read_is_given_up(
    recorded: Callable[..., Callable[..., Result]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_targets, "_SILENCE_S", 0.5)
    replay = recorded(*[("a/b", HALF_MIB)] * 16)

    def waits(_connection: socket.socket) -> bytes:
        receiver.is_over.wait(PATIENCE_S)
        return b""

    with Receiver(waits) as receiver:
        done = replay("--to", f"a/b@{receiver.address}")
    assert f"Error: sink 'a/b': {receiver.address} has read nothing for 0.5 s" in done.stderr


NUMBERED = TWO.replace("1, encode)", "1, encode, sequenced=True)")


def test_outputs_of_a_numbered_sink_are_numbered_and_acknowledged(
    recorded: Callable[..., Callable[..., Result]], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = recorded(*[("a/b", b"%d;" % number) for number in range(300)], code=NUMBERED)
    with Receiver(acknowledges) as receiver:
        done = replay("--to", f"a/b@{receiver.address}", "--begin", "100")
        assert done.exit_code == 0, done.output
        assert receiver.received == b"".join(b"%d;" % number for number in range(100, 300))
    monkeypatch.setattr(replay_targets, "_SILENCE_S", 0.5)
    with Receiver(lambda connection: acknowledges(connection, 7)) as receiver:
        done = replay("--to", f"a/b@{receiver.address}")
    told = "has acknowledged 7 of 300 outputs, and nothing for 0.5 s"
    assert f"Error: sink 'a/b': {receiver.address} {told}" in done.stderr


def test_addresses_of_no_sink_are_refused(
    recorded: Callable[..., Callable[..., Result]], tmp_path: Path
) -> None:
    replay, known = recorded(("a/b", b"one;")), "sinks that send over TCP: 'a/b', 'a b'"
    assert "name a DIRECTORY for files, or the address of a receiver with --to" in replay().stderr
    for asked, told in {
        ("localhost:1",): f"--to localhost:1: name the sink, as SINK@HOST:PORT; {known}",
        ("a-b@localhost:1",): f"--to localhost:1: there is no sink 'a-b' of this kind; {known}",
        ("a b@h:1", "a b@h:2"): "--to h:2: sink 'a b' has another --to",
        ("h",): "'h' is not an address",
    }.items():
        done = replay(*(part for one in asked for part in ("--to", one)))
        assert (done.exit_code, told in done.stderr) == (2, True), done.stderr
    both = ("--to", "a b@h:1", "--to", "a/b@h:2")
    assert "nothing is left for DIRECTORY: omit it" in replay(tmp_path / "again", *both).stderr


def test_a_sink_that_does_not_send_over_tcp_has_a_file(
    recorded: Callable[..., Callable[..., Result]], tmp_path: Path
) -> None:
    code = TWO.replace(
        'wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)', "wallaroo.PrintSinkConfig(encode)"
    )
    replay = recorded(("a/b", b"one"), code=code)
    done = replay("--to", "a/b@localhost:1")
    assert "there is no sink 'a/b' of this kind; sinks that send over TCP: none" in done.stderr
    assert replay(tmp_path / "again").exit_code == 0
    assert (tmp_path / "again" / "a-b").read_bytes() == b"one\n"
