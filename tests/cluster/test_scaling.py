"""A release as its user meets it: install, stream, scale, look, remove."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from tests.cluster.harness import Peer, Release, wait_for
from tests.helpers import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

MESSAGES = 200_000
SYMBOLS = (ROOT / "apps" / "market_spread" / "symbols.txt").read_text().split()
ENDLESS = 10**9


def test_install_and_helm_test(market_spread: Release) -> None:
    market_spread.install("--set", "test.keepPod=true", "--wait", "--timeout", "240s")
    assert "OK" in market_spread.test().split("\n"), "the log of the test's pod"
    market_spread.delete_pods("test")
    receiver = market_spread.cluster.logs(f"deployment/{market_spread.fullname}-receiver")
    assert receiver.count("20202054") == 1, "the rejected order of the test, in hex"


def test_workers_go_up_and_down_while_messages_stream(
    market_spread: Release, market_peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    market_spread.upgrade("--set", f"outputs[0]={market_peer.address}", "--wait")
    market_spread.wait_until_ready()
    market_peer.send(ENDLESS, rate=5000)
    market_peer.wait_until_sent(10_000)
    before = market_spread.lives("gateway", "driver")
    for workers in (3, 1):
        market_spread.upgrade("--set", f"workers={workers}")
        wait_for(f"{workers} workers", functools.partial(market_spread.runs, workers))
        market_peer.wait_until_sent(market_peer.progress()["sent"] + 20_000)
    market_peer.wait_until_sent(MESSAGES)
    market_peer.stop()
    assert market_spread.lives("gateway", "driver") == before
    result = market_peer.settle()
    assert result["sent"] >= MESSAGES
    assert result["connects"] == 2, "one connection for each source, from the first to the last"
    assert result["repeated"] == 0
    with capsys.disabled():
        print(f"\nlongest time without an output: {result['longest_s']:.1f} s")


def test_status_tells_what_runs(market_spread: Release) -> None:
    status = market_spread.status()
    assert status["state"] == "running"
    assert status["workers"] == {"wanted": 1, "running": 1, "partitions": 8}
    assert {source["name"] for source in status["sources"]} == {"Orders", "Market Data"}
    assert sum(source["accepted"] for source in status["sources"]) >= MESSAGES
    assert (status["backlog"], status["undelivered"], status["problems"]) == (0, 0, [])
    table = market_spread.status_table()
    assert "workers   1 running, 1 wanted, 8 at most" in table
    assert table.rstrip().endswith("no problems")


def test_the_dashboard_shows_the_application_behind_its_service(market_spread: Release) -> None:
    service = f"{market_spread.fullname}-dashboard"
    assert "<title>" in market_spread.cluster.service(service, "dashboard", "")

    def settled() -> dict[str, Any] | None:  # unwatched, it asks the gateway every few seconds
        snapshot: dict[str, Any] = json.loads(
            market_spread.cluster.service(service, "dashboard", "snapshot")
        )
        accepted: int = sum(source["accepted"] for source in snapshot["sources"])
        return snapshot if accepted >= MESSAGES else None

    snapshot = wait_for("the dashboard to show all messages", settled)
    assert {source["name"] for source in snapshot["sources"]} == {"Orders", "Market Data"}
    assert snapshot["workers"] == {"wanted": 1, "alive": 1}


def test_state_is_read_where_the_dashboard_is(market_spread: Release) -> None:
    service = f"{market_spread.fullname}-dashboard"
    page = json.loads(
        market_spread.cluster.service(service, "dashboard", "state/symbol-data?limit=1000")
    )
    assert len(page["entities"]) == len(SYMBOLS), "all partitions have answered"
    assert page["next"] is None
    assert page["position"] >= MESSAGES
    assert all(one["entity"]["last_bid"] > 0 for one in page["entities"])


def test_workers_follow_the_load(market_spread: Release, market_peer: Peer) -> None:
    bounds = {"min": 1, "max": 2, "upAfterSeconds": 10, "downAfterSeconds": 20}
    market_spread.upgrade("--set-json", f"workers={json.dumps(bounds)}")
    before = market_spread.lives("gateway", "driver")
    market_peer.send(ENDLESS, rate=10_000)
    wait_for("more workers", functools.partial(market_spread.runs, 2))
    assert "scaling   1 to 2: " in market_spread.status_table()
    market_peer.wait_until_sent(market_peer.progress()["sent"] + 20_000)
    market_peer.stop()
    result = market_peer.settle()
    assert (result["connects"], result["repeated"]) == (2, 0)
    wait_for("fewer workers", functools.partial(market_spread.runs, 1))
    assert market_spread.lives("gateway", "driver") == before
    log = market_spread.cluster.logs(market_spread.driver)
    reasons = [line for line in log.splitlines() if '"workers change"' in line]
    assert len(reasons) >= 2, "up and down"
    assert all("cores: " in line for line in reasons)
    assert market_spread.problems() == ""


def test_another_number_of_partitions_is_refused(market_spread: Release) -> None:
    with pytest.raises(Exception, match="fixed at the first install"):
        market_spread.upgrade("--set", "partitions=4")


def test_uninstall_leaves_nothing(market_spread: Release) -> None:
    market_spread.uninstall()
    wait_for("everything being gone", lambda: not market_spread.left())
