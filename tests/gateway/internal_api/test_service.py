"""What a caller without the token can cost the gateway, and that other calls are answered."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.gateway.harness import Authority
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api import service as module
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.calls import CALL_BYTES
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.front import MOST_STRANGERS
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Action, Service
from wallaroo.system.token_attempts import Attempts, Guesses

TOKEN = "a token that is long enough"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
HEAD = f"POST /v1/echo HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


class Served:
    """A service with a few actions."""

    def __init__(self, directory: Path, tls: ssl.SSLContext | None = None, **bounds: Any) -> None:
        self.now = [100.0]
        self.entered, self.may_end = threading.Semaphore(0), threading.Event()
        actions: dict[str, Action] = {"echo": lambda asked: asked, "wait": self._wait}
        guard = Authenticator(TOKEN, Leases(directory / "claim.json"), Guesses(lambda: self.now[0]))
        location = "http://127.0.0.1:0" if tls is None else "https://127.0.0.1:0"
        self.service = Service(location, actions, guard, tls, **bounds)
        self.port = self.service.port

    def _wait(self, _asked: dict[str, Any]) -> None:
        self.entered.release()
        assert self.may_end.wait(PATIENCE_S)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.may_end.set()
        self.service.shutdown()

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(
            ("127.0.0.1", self.port), PATIENCE_S, source_address=(address, 0)
        )

    def post(
        self,
        body: bytes = b"{}",
        headers: dict[str, str] | None = None,
        path: str = "/v1/echo",
        method: str = "POST",
    ) -> tuple[int, Any]:
        """Status and content of the answer to a call."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(client):
            client.request(method, path, body, RIGHT if headers is None else headers)
            answer = client.getresponse()
            return answer.status, json.loads(answer.read())

    def exchange(self, sent: bytes) -> bytes:
        """All that is answered to *sent* until the connection ends."""
        with (
            self.connect() as connection,
            connection.makefile("rb") as answers,
            contextlib.suppress(ConnectionError),
        ):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            return answers.read()
        return b""

    def works(self) -> bool:
        return self.post(b'{"a": 1}') == (200, {"a": 1})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        yield served


def ends(connection: socket.socket) -> bool:
    """Whether the other side ends a connection, in time, without an answer."""
    with contextlib.suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_a_call_is_answered_by_its_result(served: Served) -> None:
    assert served.post(b'{"key": "\\ud800"}') == (200, {"key": "\ud800"})


@pytest.mark.parametrize(
    ("body", "path", "method", "status", "message"),
    [
        (b"{}", "/v1/other", "POST", 404, "no action 'other'"),
        (b"{}", "/", "POST", 404, "no action '/'"),
        (b"{}", "/echo", "POST", 404, "no action '/echo'"),
        (b"{}", "/v1/echo", "GET", 405, "actions are called by POST"),
        (b"[]", "/v1/echo", "POST", 400, "the argument is not an object"),
        (b"\xff", "/v1/echo", "POST", 400, "the argument is not JSON: "),
        (b"[" * CALL_BYTES, "/v1/echo", "POST", 400, "the argument is not JSON: "),
        (b" " * (CALL_BYTES + 1), "/v1/echo", "POST", 413, "the argument has more than 262,144 b"),
    ],
)
def test_what_is_no_call_is_refused_in_words(
    served: Served, body: bytes, path: str, method: str, status: int, message: str
) -> None:
    answer = served.post(body, path=path, method=method)
    assert (answer[0], answer[1]["error"]) == (status, "failed")
    assert answer[1]["message"].startswith(message)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "authentication required: no token was sent"),
        ({"Authorization": TOKEN}, "the token is not this gateway's"),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, "the token is not this gateway's"),
        ({"Authorization": "Bearer \xe9"}, "the token is not this gateway's"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/echo", "/v1/other", "/"])
def test_who_has_not_the_token_learns_nothing_else(
    served: Served, headers: dict[str, str], message: str, path: str
) -> None:
    assert served.post(b"{", headers, path) == (401, {"error": "refused", "message": message})


@pytest.mark.parametrize("number", ["1", "x", "-1", "9" * 5000, "\xb2"])
def test_a_fencing_token_that_is_none_of_its_leases_is_refused(served: Served, number: str) -> None:
    headers = {**RIGHT, "Wallaroo-Fencing-Token": number}
    status, answer = served.post(headers=headers)
    assert (status, answer["error"]) == (403, "refused")


def test_wrong_tokens_are_counted_and_logged_at_a_limited_rate(served: Served) -> None:
    wrong = {"Authorization": "Bearer a guess"}
    with capture_logs() as logs:
        for _ in range(Attempts.AT_ONCE):
            assert served.post(headers=wrong)[0] == 401
        assert served.post(headers=wrong) == (
            429,
            {
                "error": "refused",
                "message": "too many wrong tokens came from 127.0.0.1: try again in 5 s",
            },
        )
        assert served.works()  # the right one is not one of them
        served.now[0] += Attempts.EVERY_S
        assert served.post(headers=wrong)[0] == 401
    told = [(one["event"], one["peer"], one["action"], one["refused"]) for one in logs]
    assert told == [
        ("call refused", "127.0.0.1", "echo", 1),
        ("call refused", "127.0.0.1", "echo", Attempts.AT_ONCE),
    ]


def test_a_body_without_the_token_is_not_read(served: Served) -> None:
    head = b"POST /v1/echo HTTP/1.1\r\nHost: g\r\nContent-Length: 1000000000\r\n\r\n"
    with served.connect() as connection:
        connection.sendall(head)
        answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"connection: close" in answer.lower()
        with contextlib.suppress(ConnectionError):
            while connection.send(bytes(1 << 20)):
                pass


def test_a_head_that_does_not_end_is_not_kept(served: Served) -> None:
    with served.connect() as connection:
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 26:
                sent += connection.send(b"X-Header: %d\r\n" % sent * 1000)
        assert sent < 1 << 26


def test_a_stranger_has_little_time_and_a_call_all_it_wants(tmp_path: Path) -> None:
    with Served(tmp_path, stranger_s=1.0) as served, served.connect() as known:
        known.sendall(HEAD.replace(b"echo", b"wait") + b"Content-Length: 2\r\n\r\n{}")
        assert served.entered.acquire(timeout=PATIENCE_S)
        for beginning in (b"", b"POST / HTTP/1.1\r\n", HEAD):
            with served.connect() as stranger:
                stranger.sendall(beginning)
                assert ends(stranger)
        served.may_end.set()
        assert known.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_the_time_of_a_stranger_includes_tls(tmp_path: Path) -> None:
    tls = Authority(tmp_path, "authority").files().for_internal_api()
    with Served(tmp_path, tls, stranger_s=0.5) as served:
        for beginning in (b"", b"\x16\x03\x01"):  # the second begins a handshake
            with served.connect() as stranger:
                stranger.sendall(beginning)
                assert ends(stranger)


def test_a_body_has_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BODY_S", 0.1)
    with Served(tmp_path) as served, served.connect() as slow:
        slow.sendall(HEAD + b"Content-Length: 2\r\n\r\n{")
        assert slow.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


def test_a_flood_from_one_address_costs_no_other_its_connection(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(served.connect("127.0.0.2"))
        flood = [stack.enter_context(served.connect()) for _ in range(MOST_STRANGERS + 20)]
        for connection in flood[:20]:
            assert ends(connection)
        other.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert served.works()


def test_there_are_only_so_many_calls_at_a_time(tmp_path: Path) -> None:
    with Served(tmp_path, most_calls=1) as served, served.connect() as known:
        known.sendall(HEAD.replace(b"echo", b"wait") + b"Content-Length: 2\r\n\r\n{}")
        assert served.entered.acquire(timeout=PATIENCE_S)
        answer = served.post()
        assert answer == (503, {"error": "away", "message": "1 calls are in progress"})
        served.may_end.set()
        wait_until(served.works, "room for a call")


def test_a_caller_that_is_gone_disturbs_nobody(served: Served) -> None:
    with served.connect() as caller:
        caller.sendall(HEAD + b"Content-Length: 2\r\n\r\n{")
    assert served.works()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("attacked"), stranger_s=0.5) as served:
        yield served


PIECES = st.sampled_from(
    [
        *(b"POST /v1/echo HTTP/1.1\r\n", b"GET / HTTP/1.0\r\n", b"Host: g\r\n", b"\r\n", b"\n"),
        *(HEAD, b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"0\r\n\r\n", b"{}"),
        *(b"Transfer-Encoding: chunked\r\n", b"5\r\n{    \r\n", b"Expect: 100-continue\r\n"),
        *(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"Upgrade: websocket\r\n", b"\x16\x03\x01\x02\x00"),
        *(b"Authorization: Bearer ", b"Wallaroo-Fencing-Token: 9\r\n", b"\0", b"\xff" * 100),
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PIECES, st.binary(max_size=40)), max_size=12).map(b"".join))
def test_whatever_comes_is_answered_or_ended_and_other_calls_are_answered(
    attacked: Served, sent: bytes
) -> None:
    answer = attacked.exchange(sent)
    assert not answer or answer.startswith(b"HTTP/1.1 ")
    if HEAD.split(b"\r\n")[2] not in sent:
        assert not answer.startswith(b"HTTP/1.1 2")
    assert attacked.works()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), JSON))
def test_any_argument_arrives_and_any_result_comes_back(
    attacked: Served, asked: dict[str, Any]
) -> None:
    client = GatewayClient(f"http://127.0.0.1:{attacked.port}", token=TOKEN, patience_s=0)
    assert client._ask("echo", asked) == asked


def ports_that_listen() -> set[int]:
    """TCP ports at which this process listens, for this test and for others."""
    mine = psutil.Process().net_connections("tcp")
    return {one.laddr.port for one in mine if one.status == psutil.CONN_LISTEN}


def test_nothing_else_listens_on_a_port(tmp_path: Path) -> None:
    before = ports_that_listen()
    with Served(tmp_path) as served:
        assert ports_that_listen() - before == {served.port}


def _nothing() -> Authenticator:
    none: Any = None  # nobody calls
    return Authenticator(TOKEN, none)


def test_a_port_that_is_taken_is_named(served: Served) -> None:
    where = f"127.0.0.1:{served.port}"
    with pytest.raises(
        RuntimeFailure,
        match=f"the internal API cannot listen on {where}: Address already in use; .* --listen",
    ):
        Service(f"http://{where}", {}, _nothing())


def test_a_socket_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    where = tmp_path / "nowhere" / "api.sock"
    with pytest.raises(RuntimeFailure, match=f"cannot listen on {where}: No such file or dir"):
        Service(f"unix:{where}", {}, _nothing())


def test_the_socket_of_a_gateway_that_was_killed_is_replaced(tmp_path: Path) -> None:
    def serve() -> Callable[[], None]:
        return Service(f"unix:{tmp_path}/api.sock", {"hot_keys": lambda _: []}, guard).shutdown

    guard = Authenticator(None, Leases(tmp_path / "claim.json"))
    first = serve()
    second = serve()
    assert GatewayClient(f"unix:{tmp_path}/api.sock", patience_s=0).hot_keys() == []
    second()
    first()
