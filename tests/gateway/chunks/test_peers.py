"""Who may connect to the gateway's socket for chunks, over TCP and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import Authority
from tests.gateway.store_loop import Loop
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.chunks.peers import Peer, PeerListener, Session
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, TOKEN_VARIABLE
from wallaroo.system.token_attempts import Attempts, Guesses
from wallaroo.wire.channel import connect

TOKEN = "a token that is long enough"


class Echo:
    """Sends each frame back, and keeps the first ones of those who may connect."""

    def __init__(self, listener: PeerListener) -> None:
        self.listener = listener
        self.port = listener.port
        self.heard: list[bytes] = []
        self.misunderstandings: list[Exception] = []
        self._loop = Loop()
        self._loop.run(listener.start(self))

    def close(self) -> None:
        async def close() -> None:
            self.listener.close()

        self._loop.run(close())
        self._loop.close()

    def introduce(self, peer: Peer, frame: bytes) -> tuple[int, Session] | None:
        self.heard.append(frame)
        return (0, EchoSession(peer)) if frame == b"hello" else None

    def misunderstood(self, error: Exception) -> None:
        self.misunderstandings.append(error)


class EchoSession:
    """What one peer sends, it gets."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def receive(self, role: int, frame: bytes) -> None:
        assert role == 0
        if frame == b"nonsense":
            raise LookupError(frame)
        self._peer.send(frame)

    def close(self) -> None:
        """The peer is gone."""


@contextlib.contextmanager
def echo(listener: PeerListener) -> Iterator[Echo]:
    served = Echo(listener)
    try:
        yield served
    finally:
        served.close()


def tcp(hello_s: float = 60.0) -> PeerListener:
    return PeerListener(None, "127.0.0.1", 0, TOKEN, hello_s=hello_s)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)


def test_frames_cross_a_port_that_asks_for_the_token() -> None:
    with echo(tcp()) as served:
        frames = connect(f"tcp://127.0.0.1:{served.port}")
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
    listener = PeerListener(None, "127.0.0.1", 0, TOKEN, authority.files().serving())
    sent = [bytes([n]) * (n << 12) for n in range(200)]
    with echo(listener) as served:
        frames = connect(f"tls://127.0.0.1:{served.port}")
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
    listener = PeerListener(None, "127.0.0.1", 0, TOKEN, authority.files().serving())
    with echo(listener) as served, pytest.raises(OSError, match="certificate"):
        connect(f"tls://127.0.0.1:{served.port}")
    assert not served.heard


def test_a_peer_with_another_token_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "another token of some length")
    with echo(tcp()) as served:
        frames = connect(f"tcp://127.0.0.1:{served.port}")
        with contextlib.suppress(OSError):
            frames.send(b"hello")
        with contextlib.suppress(ConnectionResetError):
            assert frames.receive() is None
        frames.close()
    assert not served.heard


def test_wrong_tokens_do_not_shut_out_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = Guesses(lambda: 100.0)
    listener = PeerListener(None, "127.0.0.1", 0, TOKEN, guesses=guesses)
    with echo(listener) as served, capture_logs() as logs:
        monkeypatch.setenv(TOKEN_VARIABLE, "another token of some length")
        for _ in range(2 * Attempts.AT_ONCE):
            assert not _is_heard(served)
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        assert _is_heard(served)
    assert [entry["event"] for entry in logs] == ["call refused"]


def _is_heard(served: Echo) -> bool:
    """Whether a peer with the token of the environment is answered."""
    frames = connect(f"tcp://127.0.0.1:{served.port}")
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


def test_a_peer_that_does_not_begin_tls_is_cut_off(tmp_path: Path) -> None:
    files = Authority(tmp_path, "authority").files().serving()
    listener = PeerListener(None, "127.0.0.1", 0, TOKEN, files, hello_s=0.1)
    with echo(listener) as served, _plain(served) as silent:
        silent.settimeout(PATIENCE_S / 2)
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1) == b""


def test_few_strangers_are_served_at_a_time() -> None:
    with echo(tcp()) as served, contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(_plain(served)) for _ in range(65)]
        assert strangers[0].recv(1) == b""  # the oldest
        assert _is_heard(served)
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


def _plain(served: Echo, address: str = "127.0.0.1") -> socket.socket:
    port = served.port
    assert port is not None
    return socket.create_connection(("127.0.0.1", port), source_address=(address, 0))


def test_a_peer_that_sends_nonsense_is_cut_off_and_told_of() -> None:
    with echo(tcp()) as served:
        frames = connect(f"tcp://127.0.0.1:{served.port}")
        frames.send(b"hello")
        frames.send(b"nonsense")
        with contextlib.suppress(ConnectionResetError):
            assert frames.receive() is None
        frames.close()
        wait_until(lambda: served.misunderstandings, "the report")
        assert _is_heard(served)


def test_a_peer_that_begins_with_something_long_is_cut_off() -> None:
    with echo(tcp()) as served:
        frames = connect(f"tcp://127.0.0.1:{served.port}")
        with contextlib.suppress(OSError):
            frames.send(bytes(5_000))
        with contextlib.suppress(ConnectionResetError):
            assert frames.receive() is None
        frames.close()
    assert not served.heard


def test_a_peer_that_takes_nothing_holds_nobody_up() -> None:
    with echo(tcp()) as served:
        slow = connect(f"tcp://127.0.0.1:{served.port}")
        slow.send(b"hello")
        frame = bytes(1_000_000)
        for _ in range(30):  # more than the buffers of its connection hold
            slow.send(frame)
        assert _is_heard(served)
        for _ in range(30):
            assert slow.receive() == frame
        slow.close()


def test_a_connection_that_comes_as_the_listener_closes_is_closed_in_order() -> None:
    with echo(tcp()) as served:

        async def close_after_accepting() -> None:
            loop = asyncio.get_running_loop()
            peers.append(socket.create_connection(("127.0.0.1", served.port)))
            loop.call_soon(loop.call_soon, served.listener.close)  # the turn after that of `accept`

        peers: list[socket.socket] = []
        served._loop.run(close_after_accepting())
        peers[0].close()
    gc.collect()  # warns of what is left open


def test_a_port_without_a_token_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="--token-file"):
        PeerListener(None, "127.0.0.1", 0)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RuntimeFailure, match=f"{port} for chunks .*--chunks-port"):
            PeerListener(None, "127.0.0.1", port, TOKEN)
