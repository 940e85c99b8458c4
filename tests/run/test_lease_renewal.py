"""A driver that waits for its lease, one that takes over, and one that has no use in waiting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.internal_api.test_service import Served
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.connection import TokenRefused
from wallaroo.gateway.internal_api.leases import Leases, Successor
from wallaroo.gateway.internal_api.service import Action, Service
from wallaroo.run import lease_renewal
from wallaroo.run.lease_renewal import LeaseRenewal
from wallaroo.system.credentials import TOKEN_VARIABLE


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A gateway's internal API, with leases that are renewed often."""
    monkeypatch.setattr(lease_renewal, "RENEW_S", 0.01)
    monkeypatch.setattr(lease_renewal, "_RETRY_S", 0.01)
    leases = Leases(tmp_path / "claim.json")

    def successor() -> object:
        found = leases.renew()
        return None if found is None else dataclasses.asdict(found)

    actions: dict[str, Action] = {
        "claim": lambda asked: {"number": leases.claim(asked["holder"], ready=asked["ready"])},
        "renew": lambda _: successor(),
        "release": lambda asked: leases.release(**asked),
        "holder": lambda _: leases.holder,
    }
    where = f"unix:{tmp_path}/api.sock"
    service = Service(where, actions, Authenticator(None, leases))
    yield where
    service.shutdown()


def test_a_wrong_token_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a token of another gateway")
    monkeypatch.setattr(lease_renewal, "_RETRY_S", 3600.0)
    with Served(tmp_path) as served:
        for acquire in (LeaseRenewal.acquire, LeaseRenewal.acquire_or_wait):
            renewal = LeaseRenewal(f"http://127.0.0.1:{served.port}", "driver")
            with pytest.raises(TokenRefused, match="the token is not this gateway's"):
                acquire(renewal, PATIENCE_S)


def test_a_driver_that_takes_over_gets_the_lease_when_the_other_hands_over(location: str) -> None:
    old, new = LeaseRenewal(location, "old"), LeaseRenewal(location, "new")
    assert old.acquire_or_wait(PATIENCE_S) == 1
    assert new.acquire_or_wait(PATIENCE_S) is None
    wait_until(lambda: old.successor == Successor("new", ready=False), "the successor")
    new.be_ready()
    wait_until(lambda: old.successor == Successor("new", ready=True), "the successor to be ready")
    assert new.granted(0.0) is None
    old.release(hands_over=True)
    assert new.granted(PATIENCE_S) == 2
    old.release()  # which releases nothing of the other one's
    renewed = LeaseRenewal(location, "third")
    assert renewed.acquire_or_wait(PATIENCE_S) is None
    wait_until(lambda: new.successor == Successor("third", ready=False), "the next one")
    for each in (renewed, new):
        each.release()
    assert new.lost is None
