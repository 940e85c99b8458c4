"""What a driver's probes say, with a gateway behind a real internal API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service
from wallaroo.gateway.internal_api.status import WAITING
from wallaroo.run import driver_status
from wallaroo.run.driver_status import HANDED_OVER, DriverStatus
from wallaroo.wire.chunk_messages import News, Publication
from wallaroo.wire.records import Tally


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@dataclass
class Gateway:
    """A gateway that tells what a test wants."""

    location: str
    accepted: int = 0
    backlog: int = 0
    waited_s: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)

    def status(self, _asked: dict[str, Any]) -> Any:
        numbers = (
            *("connections", "backlog_bytes", "undelivered", "published", "delivered"),
            *("set_aside", "unknown_key", "late"),
        )
        return {
            **dict.fromkeys(numbers, 0),
            "sources": [{"name": "s", "where": "w:1", "accepted": self.accepted}],
            "sinks": [],
            "backlog": self.backlog,
            "waited_s": self.waited_s,
            "waits_for_time": False,
            **self.more,
        }


def published(chunk: int) -> News:
    return News(Tally(), [Publication(chunk, 1, 1, 0.0, 0.0, 0.0)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(driver_status, "time", clock)
    return clock


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(f"unix:{tmp_path}/door.sock")
    guard = Authenticator(None, Leases(tmp_path / "claim.json"))
    service = Service(gateway.location, {"status": gateway.status}, guard)
    yield gateway
    service.shutdown()


@pytest.fixture
def status(clock: Clock, gateway: Gateway) -> DriverStatus:
    status = DriverStatus("Votes", 8)
    status.client = GatewayClient(gateway.location, patience_s=0)
    return status


def test_a_start_may_take_minutes_and_not_for_ever(status: DriverStatus, clock: Clock) -> None:
    status.enter("waiting for the gateway")
    clock.now += 299
    assert status.alive() == (True, "waiting for the gateway")
    assert status.ready() == (False, "waiting for the gateway")
    clock.now += 2
    assert status.alive() == (False, "waiting for the gateway for 301 s")


@pytest.mark.parametrize("state", [WAITING, HANDED_OVER])
def test_a_driver_may_wait_for_another_one_for_ever(
    status: DriverStatus, clock: Clock, state: str
) -> None:
    status.enter(state)
    clock.now += 100_000
    assert status.alive() == (True, state)
    # a rollback would wait for one that has handed over, before it removes the one that took over
    assert status.ready() == (state == HANDED_OVER, state)


def test_it_is_not_ready_while_the_query_waits(status: DriverStatus) -> None:
    status.enter("running")
    engine = SimpleNamespace(lack="the disk is full", workers=lambda: (1, 1))
    status.engine = engine  # type: ignore[assignment]
    assert status.ready() == (False, "the query waits: the disk is full")
    assert status.to_json()["problem"] == "the query waits: the disk is full"
    engine.lack = None
    assert status.ready() == (True, "idle")


def test_it_is_ready_while_chunks_advance_or_there_is_nothing_to_do(
    status: DriverStatus, gateway: Gateway, clock: Clock
) -> None:
    status.enter("running")
    assert status.ready() == (True, "idle")
    gateway.backlog, gateway.waited_s = 7, 9.0
    clock.now += 600  # idle for long, and the first message has not waited as long
    assert status.ready() == (True, "advancing")
    gateway.waited_s = 11.0
    stalled = "7 messages waiting, nothing published for 11 s"
    assert (status.ready(), status.to_json()["problem"]) == ((False, stalled), stalled)
    status.on_published(published(3))
    assert (status.ready(), status.to_json()["problem"]) == ((True, "advancing"), None)


def test_a_pause_is_its_state_and_no_stall(
    status: DriverStatus, gateway: Gateway, clock: Clock
) -> None:
    status.enter("running")
    status.pause = SimpleNamespace(since=clock.now)  # type: ignore[assignment]
    gateway.backlog, gateway.waited_s = 7, 600.0
    clock.now += 600
    assert status.ready() == (True, "paused")
    told = status.to_json()
    assert (told["state"], told["paused_s"], told["problem"]) == ("paused", 600.0, None)
    status.enter("stopping")
    assert status.to_json()["state"] == "stopping"
    status.pause = SimpleNamespace(since=None)  # type: ignore[assignment]
    status.enter("running")
    told = status.to_json()
    assert (told["state"], told["paused_s"]) == ("running", None)


def test_without_its_gateway_it_is_not_ready(clock: Clock, tmp_path: Path) -> None:
    status = DriverStatus("Votes", 8)
    status.client = GatewayClient(f"unix:{tmp_path}/nobody.sock", patience_s=0)
    status.enter("running")
    assert status.ready() == (False, "the gateway is unavailable")
    assert not status.gateway_responds()
    assert status.to_json()["gateway"] is None


def test_what_ended_it_is_its_last_error(status: DriverStatus) -> None:
    status.enter("running")
    status.fail("the query failed 6 times in a row: disk full")
    assert status.alive() == (False, "the query failed 6 times in a row: disk full")
    told = status.to_json()
    assert (told["state"], told["last_error"]) == ("failed", status.alive().reason)


def test_rates_are_those_of_the_last_half_minute(
    status: DriverStatus, gateway: Gateway, clock: Clock
) -> None:
    status.enter("running")
    assert status.to_json()["messages_per_s"] is None
    for number in range(15):
        clock.now += 2.0
        gateway.accepted += 500
        status.on_published(published(number))
        status.ready()
    told = status.to_json()
    assert told["messages_per_s"] == 250.0
    assert told["publications_per_s"] == 0.5
    assert told["chunk"] == {"number": 14, "age_s": 0.0}
    clock.now += 60
    assert status.to_json()["publications_per_s"] == 0.0
