"""One driver at a time has a gateway; a call of an earlier one is turned away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wallaroo.errors import DamagedFile, RuntimeFailure, UsageError
from wallaroo.gateway.internal_api import client
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.calls import API, check_version
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connection import CallRefused
from wallaroo.gateway.internal_api.leases import (
    LAPSE_READY_S,
    LAPSE_S,
    LeaseHeld,
    Leases,
    Successor,
)
from wallaroo.gateway.internal_api.service import Action, Service
from wallaroo.system.credentials import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, read_token

TOKEN = "0123456789abcdef"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(tmp_path: Path, clock: Clock) -> Leases:
    return Leases(tmp_path / "claim.json", clock)


def test_a_second_driver_waits_until_the_first_has_been_silent(
    leases: Leases, clock: Clock
) -> None:
    assert leases.claim("first") == 1
    clock.now += LAPSE_S - 1
    with pytest.raises(
        LeaseHeld, match=r"the driver first has the lease of this gateway, .* 14 s ago"
    ):
        leases.claim("second")
    leases.renew()
    clock.now += LAPSE_S - 1
    with pytest.raises(LeaseHeld):
        leases.claim("second")
    clock.now += 1
    assert leases.claim("second") == 2
    assert leases.holder == "second"


def test_a_pod_that_takes_its_predecessors_place_need_not_wait(leases: Leases) -> None:
    assert leases.claim("driver-0") == 1
    assert leases.claim("driver-0") == 2
    assert leases.problem(2) is None
    assert (
        leases.problem(1)
        == "fenced out: the driver driver-0 has acquired the lease of this gateway since"
    )


def test_a_driver_that_ends_in_good_order_leaves_at_once(leases: Leases) -> None:
    leases.claim("first")
    leases.release()
    assert (
        leases.problem(1)
        == "fenced out: the driver (gone) has acquired the lease of this gateway since"
    )
    assert leases.claim("second") == 2


def test_a_driver_that_could_begin_at_once_waits_for_less_silence(
    leases: Leases, clock: Clock
) -> None:
    leases.claim("first")
    clock.now += LAPSE_READY_S
    for ready in (None, False):
        with pytest.raises(LeaseHeld):
            leases.claim("second", ready=ready)
    assert leases.claim("second", ready=True) == 2


def test_a_driver_that_waits_is_told_to_the_holder_until_it_is_silent(
    leases: Leases, clock: Clock
) -> None:
    leases.claim("first")
    assert leases.renew() is None
    for ready in (False, True):
        with pytest.raises(LeaseHeld):
            leases.claim("second", ready=ready)
        assert leases.renew() == Successor("second", ready)
    with pytest.raises(LeaseHeld):
        leases.claim("third")  # which is not to take over
    assert leases.renew() == Successor("second", ready=True)
    clock.now += 6
    assert leases.renew() is None


def test_a_driver_that_has_handed_over_does_not_take_over_again(
    leases: Leases, tmp_path: Path, clock: Clock
) -> None:
    leases.claim("old")
    with pytest.raises(LeaseHeld):
        leases.claim("new", ready=True)
    leases.release(hands_over=True)
    assert leases.claim("new", ready=True) == 2
    assert leases.renew() is None
    reopened = Leases(tmp_path / "claim.json", clock)
    for known in (leases, reopened):
        with pytest.raises(LeaseHeld):
            known.claim("old", ready=True)
        assert known.renew() is None


def test_a_driver_that_has_handed_over_goes_on_if_the_other_one_has_gone(
    leases: Leases, clock: Clock
) -> None:
    leases.claim("old")
    leases.release(hands_over=True)
    leases.claim("new")
    assert leases.holder == "new"
    clock.now += LAPSE_S
    assert leases.holder is None
    assert leases.claim("old", ready=False) == 3
    with pytest.raises(LeaseHeld):
        leases.claim("new", ready=True)  # it would go again
    assert leases.renew() is None
    with pytest.raises(LeaseHeld):
        leases.claim("newer", ready=True)
    assert leases.renew() == Successor("newer", ready=True)


@pytest.mark.parametrize("releases", [True, False])
def test_a_driver_that_took_over_and_went_may_go_on_if_no_other_does(
    leases: Leases, clock: Clock, releases: bool
) -> None:
    leases.claim("old")
    leases.release(hands_over=True, paused_since=12.5)
    leases.claim("new")
    assert leases.paused_since == 12.5, "it was handed over paused"
    if releases:
        leases.release()
    clock.now += LAPSE_S
    leases.claim("old")
    assert leases.paused_since is None
    clock.now += LAPSE_S
    assert leases.claim("new", ready=False) == 4
    with pytest.raises(LeaseHeld):
        leases.claim("old", ready=True)
    assert leases.renew() is None


def test_claims_outlive_the_gateway_and_its_pause_counts_for_the_holder(
    tmp_path: Path, leases: Leases, clock: Clock
) -> None:
    leases.claim("first")
    clock.now += 100 * LAPSE_S
    reopened = Leases(tmp_path / "claim.json", clock)
    assert reopened.holder == "first"
    assert reopened.problem(1) is None
    with pytest.raises(LeaseHeld):
        reopened.claim("second")


def test_a_claim_of_another_volume_is_told(leases: Leases) -> None:
    leases.claim("first")
    assert leases.problem(7) == (
        "this gateway's volume is not the one whose lease the driver acquired"
    )


@pytest.fixture
def location(tmp_path: Path, leases: Leases) -> Iterator[str]:
    """A gateway's internal API that asks for TOKEN."""

    def claim(asked: dict[str, Any]) -> dict[str, int]:
        check_version(asked)
        return {"number": leases.claim(asked["holder"], ready=asked["ready"])}

    actions: dict[str, Action] = {
        "claim": claim,
        "hot_keys": lambda _: [],
        "renew": lambda _: leases.renew(),
        "release": lambda asked: leases.release(**asked),
    }
    where = f"unix:{tmp_path}/api.sock"
    service = Service(where, actions, Authenticator(TOKEN, leases))
    yield where
    service.shutdown()


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (None, "authentication required: no token was sent"),
        (TOKEN[::-1], "the token is not this gateway's"),
    ],
)
def test_who_has_not_the_token_is_turned_away_without_another_try(
    location: str, monkeypatch: pytest.MonkeyPatch, token: str | None, reason: str
) -> None:
    monkeypatch.delenv(TOKEN_FILE_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    if token is not None:
        monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(CallRefused, match=reason):
        GatewayClient(location).hot_keys()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"version": "0.2.0", "api": API + 1}, rf"0.2.0 \(internal API {API + 1}\)"),
        ({"version": "0.0.9", "api": API - 1}, rf"0.0.9 \(internal API {API - 1}\)"),
        ({}, r"\(unknown\) \(internal API unknown\)"),
    ],
)
def test_a_driver_of_another_version_is_told_both(
    location: str, monkeypatch: pytest.MonkeyPatch, other: dict[str, object], told: str
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setattr(client, "introduction", lambda: other)
    reason = rf"the driver runs wallaroo {told}, the gateway wallaroo 0.1.0 \(internal API {API}\)"
    with pytest.raises(RuntimeFailure, match=reason):
        GatewayClient(location).claim("other")
    monkeypatch.undo()
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert GatewayClient(location).claim("of the gateway's version") == 1


def test_an_earlier_driver_may_do_nothing_any_more(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(file))
    first, second = GatewayClient(location), GatewayClient(location)
    assert first.claim("first") == 1
    assert first.hot_keys() == []
    with pytest.raises(CallRefused, match="two drivers cannot run one application"):
        second.claim("second")
    clock.now += LAPSE_S
    assert second.claim("second") == 2
    worker = GatewayClient(location, claim=1)
    with pytest.raises(CallRefused, match="fenced out: the driver second has acquired"):
        first.renew_claim()
    with pytest.raises(CallRefused, match="fenced out: the driver second has acquired"):
        worker.hot_keys()
    assert second.hot_keys() == []


def test_a_token_file_that_keeps_nobody_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"token cannot be read: No such file"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_text("secret\n")
    with pytest.raises(UsageError, match="has 6 characters; at least 16 are required"):
        read_token(tmp_path / "token")


def test_a_changed_file_is_told(tmp_path: Path) -> None:
    """A lower number would let in a driver that was fenced out."""
    file = tmp_path / "claim.json"
    Leases(file).claim("a")
    file.write_text(file.read_text().replace('"number": 1', '"number": 0'))
    with pytest.raises(DamagedFile, match=r"claim\.json is damaged: its contents do not match"):
        Leases(file)
