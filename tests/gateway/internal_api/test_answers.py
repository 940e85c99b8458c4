"""What an error of the gateway means goes with it, and is not read out of its words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wallaroo.engine.gateway_api import Stopped
from wallaroo.errors import RuntimeFailure
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
        self.to_come: list[Exception | str] = []

    def __call__(self, _asked: dict[str, Any]) -> str:
        answer = self.to_come.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def ask(
    tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Any]]:
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    outbox = Outbox(tmp_path / "outbox.db", 1 << 20)
    guard = Authenticator(None, Leases(tmp_path / "claim.json"))
    location = f"grpc+unix://{tmp_path}/api.sock"
    service = Service(location, journal, outbox, {"ask": answers}, guard)
    monkeypatch.setattr(connection, "time", Clock())
    client = GatewayClient(location, patience_s=PATIENCE_S)
    yield lambda: client._ask("ask", {})
    client.close()
    service.shutdown()
    journal.close()
    outbox.close()


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_that_the_application_is_to_stop_arrives_as_such(
    answers: Answers, ask: Callable[[], Any]
) -> None:
    answers.to_come = [Stopped(WORDS)]
    with pytest.raises(Stopped) as told:
        ask()
    assert str(told.value) == WORDS


def test_an_error_of_the_same_words_is_another_one(
    answers: Answers, ask: Callable[[], Any]
) -> None:
    answers.to_come = [LookupError(WORDS)]
    with pytest.raises(RuntimeFailure, match=f"gateway call 'ask' failed: {WORDS}") as told:
        ask()
    assert not isinstance(told.value, Stopped)


def test_a_gateway_whose_disk_is_full_is_asked_until_it_has_room(
    answers: Answers, ask: Callable[[], Any]
) -> None:
    answers.to_come = [*(full_disk() for _ in range(5)), "done"]
    assert ask() == "done"
