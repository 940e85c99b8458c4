"""Who may connect to the gateway's socket for chunks, over TCP and TLS."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import Authority
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.chunks.listener import Listener
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, TOKEN_VARIABLE
from wallaroo.system.token_attempts import Attempts, Guesses
from wallaroo.wire.channel import connect
from wallaroo.wire.frame_socket import FrameSocket, Stream

TOKEN = "a token that is long enough"


class Echo:
    """Sends each frame back, and keeps the first ones of those who may connect."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.heard: list[bytes | None] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self.listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while (connection := self.listener.accept()) is not None:
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            frames = self.listener.introduced(connection, self._greeting)
            while frames is not None and (frame := frames.receive()) is not None:
                frames.send(frame)

    def _greeting(self, stream: Stream) -> FrameSocket:
        frames = FrameSocket(stream)
        self.heard.append(frames.receive())
        return frames


@contextlib.contextmanager
def echo(listener: Listener) -> Iterator[Echo]:
    served = Echo(listener)
    try:
        yield served
    finally:
        served.close()


def tcp(hello_s: float = 60.0) -> Listener:
    return Listener(socket.create_server(("127.0.0.1", 0)), TOKEN, hello_s=hello_s)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)


def test_frames_cross_a_port_that_asks_for_the_token() -> None:
    with echo(tcp()) as served:
        frames = connect(f"tcp://127.0.0.1:{served.listener.port}")
        frames.send(b"hello")
        frames.send(b"frame")
        assert frames.receive() == b"frame"
        frames.close()
    assert served.heard == [b"hello"]


def test_frames_cross_tls_in_both_directions_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "authority")
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(authority.file))
    listener = Listener.at_port("127.0.0.1", 0, TOKEN, authority.files().serving())
    sent = [bytes([n]) * (n << 12) for n in range(200)]
    with echo(listener):
        frames = connect(f"tls://127.0.0.1:{listener.port}")
        frames.send(b"hello")
        sender = threading.Thread(target=lambda: deque(map(frames.send, sent), 0))
        sender.start()
        received = [frames.receive() for _ in sent]
        sender.join()
        frames.close()
    assert received == sent


def test_a_gateway_of_another_authority_gets_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path, "authority"), Authority(tmp_path / "other", "other")
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(other.file))
    listener = Listener.at_port("127.0.0.1", 0, TOKEN, authority.files().serving())
    with echo(listener) as served, pytest.raises(OSError, match="certificate"):
        connect(f"tls://127.0.0.1:{listener.port}")
    assert not served.heard


def test_a_peer_with_another_token_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "another token of some length")
    with echo(tcp()) as served:
        frames = connect(f"tcp://127.0.0.1:{served.listener.port}")
        with contextlib.suppress(OSError):
            frames.send(b"hello")
        with contextlib.suppress(ConnectionResetError):
            assert frames.receive() is None
        frames.close()
    assert not served.heard


def test_wrong_tokens_do_not_shut_out_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = Guesses(lambda: 100.0)
    listener = Listener(socket.create_server(("127.0.0.1", 0)), TOKEN, guesses=guesses)
    with echo(listener) as served, capture_logs() as logs:
        monkeypatch.setenv(TOKEN_VARIABLE, "another token of some length")
        for _ in range(2 * Attempts.AT_ONCE):
            assert not _is_heard(served)
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        assert _is_heard(served)
    assert [entry["event"] for entry in logs] == ["call refused"]


def _is_heard(served: Echo) -> bool:
    """Whether a peer with the token of the environment is answered."""
    frames = connect(f"tcp://127.0.0.1:{served.listener.port}")
    try:
        frames.send(b"hello")
        frames.send(b"frame")
        return frames.receive() == b"frame"
    except OSError:
        return False
    finally:
        frames.close()


def test_a_peer_that_does_not_introduce_itself_is_cut_off() -> None:
    with echo(tcp(hello_s=0.1)) as served, _plain(served) as silent:
        assert silent.recv(1) == b""


def test_few_strangers_are_served_at_a_time() -> None:
    with echo(tcp()) as served, contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(_plain(served)) for _ in range(65)]
        assert strangers[0].recv(1) == b""  # the oldest
        assert _connects(served)()
        strangers[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            strangers[-1].recv(1)


def test_a_flood_from_one_address_costs_no_other_its_connection() -> None:
    with echo(tcp()) as served, contextlib.ExitStack() as stack:
        other = stack.enter_context(_plain(served, "127.0.0.2"))
        flood = [stack.enter_context(_plain(served)) for _ in range(100)]
        for connection in flood[:37]:
            assert connection.recv(1) == b""
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1)


def _connects(served: Echo) -> Callable[[], bool]:
    def connects() -> bool:
        frames = connect(f"tcp://127.0.0.1:{served.listener.port}")
        try:
            frames.send(b"hello")
            frames.send(b"frame")
            return frames.receive() == b"frame"
        except OSError:
            return False
        finally:
            frames.close()

    return connects


def _plain(served: Echo, address: str = "127.0.0.1") -> socket.socket:
    port = served.listener.port or 0
    return socket.create_connection(("127.0.0.1", port), source_address=(address, 0))


def test_a_port_without_a_token_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="--token-file"):
        Listener.at_port("127.0.0.1", 0, None, None)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RuntimeFailure, match=f"{port} for chunks .*--chunks-port"):
            Listener.at_port("127.0.0.1", port, TOKEN, None)
