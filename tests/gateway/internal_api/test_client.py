"""Calls of the gateway: what an error means, and how long one is tried."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wallaroo.engine.gateway_api import Stopped
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.internal_api import connection
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox

PATIENCE_S = 10.0
WORDS = "stopped because of --on-error: the disk has no room"


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
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    outbox = Outbox(tmp_path / "outbox.db", 1 << 20)
    guard = Authenticator(None, Leases(tmp_path / "claim.json"))
    location = f"grpc+unix://{tmp_path}/api.sock"
    service = Service(location, journal, outbox, {"drop_letters": answers}, guard)
    monkeypatch.setattr(connection, "time", Clock())
    client = GatewayClient(location, patience_s=PATIENCE_S)
    yield client
    client.close()
    service.shutdown()
    journal.close()
    outbox.close()


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_that_the_application_is_to_stop_arrives_as_such(
    answers: Answers, client: GatewayClient
) -> None:
    answers.to_come = [Stopped(WORDS)]
    with pytest.raises(Stopped) as told:
        client.drop_letters(Choice())
    assert str(told.value) == WORDS


def test_an_error_of_the_same_words_is_another_one(answers: Answers, client: GatewayClient) -> None:
    answers.to_come = [LookupError(WORDS)]
    with pytest.raises(
        RuntimeFailure, match=f"gateway call 'drop_letters' failed: {WORDS}"
    ) as told:
        client.drop_letters(Choice())
    assert not isinstance(told.value, Stopped)


def test_a_gateway_whose_disk_is_full_is_asked_until_it_has_room(
    answers: Answers, client: GatewayClient
) -> None:
    answers.to_come = [*(full_disk() for _ in range(5)), 7]
    assert client.drop_letters(Choice()) == 7


def test_a_request_that_the_gateway_does_not_know_fails_with_a_sentence(
    client: GatewayClient,
) -> None:
    with pytest.raises(RuntimeFailure, match="call 'status' failed: no action 'status'"):
        client.status()


def test_a_call_to_a_gateway_that_is_given_up_is_not_tried_again() -> None:
    asked = threading.Event()

    def gone() -> bool:
        asked.set()
        return True

    client = GatewayClient("grpc://127.0.0.1:1", patience_s=float("inf"), gone=gone)
    with pytest.raises(RuntimeFailure, match="gateway call 'status' failed"):
        client.status()
    assert asked.is_set()
