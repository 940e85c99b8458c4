"""Calls of the gateway: what an error means, and how long one is tried."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.internal_api import client as of_gateway
from wallaroo.gateway.internal_api import connection
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.calls import CALL_BYTES
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service

PATIENCE_S = 10.0
WORDS = "no letter 7: the disk has no room"


class Clock:
    """Goes on only while somebody waits: by nearly all of the client's patience."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, _seconds: float) -> None:
        self._now += 0.9 * PATIENCE_S


class Answers:
    """A gateway that gives the answers that it is told to, one after the other."""

    def __init__(self) -> None:
        self.to_come: list[Exception | int] = []

    def __call__(self, _asked: dict[str, Any]) -> int:
        answer = self.to_come.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def client(
    tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GatewayClient]:
    guard = Authenticator(None, Leases(tmp_path / "claim.json"))
    location = f"unix:{tmp_path}/api.sock"
    service = Service(location, {"drop_letters": answers}, guard)
    monkeypatch.setattr(connection, "time", Clock())
    yield GatewayClient(location, patience_s=PATIENCE_S)
    service.shutdown()


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_an_action_that_fails_says_why(answers: Answers, client: GatewayClient) -> None:
    answers.to_come = [LookupError(WORDS)]
    with pytest.raises(RuntimeFailure, match=f"gateway call 'drop_letters' failed: {WORDS}"):
        client.drop_letters(Choice())


def test_a_call_that_no_gateway_takes_is_not_sent(client: GatewayClient) -> None:
    with pytest.raises(RuntimeFailure, match=r"'drop_letters' has .* bytes, and the gateway takes"):
        client.drop_letters(Choice(tuple(range(CALL_BYTES))))


def test_what_is_no_gateway_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n")

        answering = threading.Thread(target=answer)
        answering.start()
        client = GatewayClient(f"http://127.0.0.1:{listener.getsockname()[1]}", patience_s=0)
        with pytest.raises(RuntimeFailure, match="'status' failed: HTTP status 404 without an an"):
            client.status()
        answering.join()


def test_a_gateway_whose_disk_is_full_is_asked_until_it_has_room(
    answers: Answers, client: GatewayClient
) -> None:
    answers.to_come = [*(full_disk() for _ in range(5)), 7]
    assert client.drop_letters(Choice()) == 7


def test_a_request_that_the_gateway_does_not_know_fails_with_a_sentence(
    client: GatewayClient,
) -> None:
    with pytest.raises(
        RuntimeFailure, match="no action 'status', as it has another version of wall"
    ):
        client.status()


def test_a_call_to_a_gateway_that_is_given_up_is_not_tried_again() -> None:
    asked = threading.Event()

    def gone() -> bool:
        asked.set()
        return True

    client = GatewayClient("http://127.0.0.1:1", patience_s=float("inf"), gone=gone)
    with pytest.raises(RuntimeFailure, match="gateway call 'status' failed"):
        client.status()
    assert asked.is_set()


def test_an_address_that_drops_packets_is_given_up_sooner_than_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_CONNECT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent, full(silent):
        client = GatewayClient("http://{}:{}".format(*silent.getsockname()), patience_s=0)
        with pytest.raises(RuntimeFailure, match="timed out"):
            client.release_claim()


def test_a_gateway_that_stands_still_is_away_for_who_watches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_gateway, "_STATUS_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = GatewayClient("http://{}:{}".format(*silent.getsockname()), patience_s=0)
        with pytest.raises(RuntimeFailure, match="gateway call 'status' failed: timed out"):
            client.status()


@contextlib.contextmanager
def full(listener: socket.socket) -> Iterator[None]:
    """Connections to *listener*, which accepts none, until it drops packets."""
    with contextlib.ExitStack() as waiting:
        while True:
            one = waiting.enter_context(socket.socket())
            one.settimeout(0.1)
            try:
                one.connect(listener.getsockname())
            except TimeoutError:
                break
        yield
