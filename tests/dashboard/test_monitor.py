"""What the dashboard makes of the metrics of a run: rates, percentiles, and the history."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import pytest

import wallaroo
from tests.applications import counting, joining
from tests.dashboard.feed import FAST, PIPELINE, SLOW, START, Feed, serving
from tests.dashboard.viewer import Viewer
from tests.helpers import PATIENCE_S, WORD_COUNT
from wallaroo.dashboard.monitor import Watch
from wallaroo.engine.realtime.metrics import KnownError
from wallaroo.metrics.catalogue import OPEN_WINDOWS, SET_ASIDE, STEP_RESULTS, STEP_SECONDS
from wallaroo.metrics.samples import Distribution, HotKey, Sample
from wallaroo.resolution.application import resolve
from wallaroo.system.restarts import Restart
from wallaroo.testing import load
from wallaroo.wire.chunk_messages import Publication
from wallaroo.wire.records import FailedMessage


@pytest.fixture
def viewer(feed: Feed) -> Iterator[Viewer]:
    with serving(feed) as dashboard:
        dashboard.viewer.snapshot(START)
        yield dashboard.viewer


def pipeline(snapshot: Any) -> dict[str, Any]:
    found: dict[str, Any] = snapshot["point"]["pipelines"][PIPELINE]
    return found


def test_a_run_without_messages_has_rates_of_zero_and_no_latency(viewer: Viewer) -> None:
    snapshot = viewer.snapshot(START)
    assert pipeline(snapshot) == {
        "in": 0,
        "out": 0,
        "p50": None,
        "p95": None,
        "p99": None,
        "messages": 0,
    }
    assert snapshot["began"] == START
    assert (snapshot["hot_keys"], snapshot["publications"], snapshot["errors"]) == ([], [], [])


def test_rates_are_averages_since_the_last_poll_at_least_five_seconds_ago(
    feed: Feed, viewer: Viewer
) -> None:
    feed.set(10, fast=1_000, outputs=5_000, delivered=4_000)
    snapshot = viewer.snapshot(START + 10)
    assert (pipeline(snapshot)["in"], pipeline(snapshot)["out"]) == (100, 500)
    assert snapshot["sinks"] == [
        {
            "name": PIPELINE,
            "where": "127.0.0.1:7002",
            "problem": None,
            "delivered": 4_000,
            "waiting": 1_000,
            "rate": 400,
        }
    ]
    feed.set(4, fast=1_400)
    snapshot = viewer.snapshot(START + 14)
    assert pipeline(snapshot)["in"] == 100  # 1,400 in 14 s: the poll before last was too recent
    feed.set(4, fast=3_000)
    assert pipeline(viewer.snapshot(START + 18))["in"] == 250  # 2,000 in 8 s
    feed.set(10)
    snapshot = viewer.snapshot(START + 28)
    assert (pipeline(snapshot)["in"], snapshot["sinks"][0]["rate"]) == (0, 0)


def test_percentiles_are_of_the_last_fifteen_seconds(feed: Feed, viewer: Viewer) -> None:
    feed.set(10, fast=90, slow=10)
    latencies = pipeline(viewer.snapshot(START + 10))
    assert latencies["p50"] == pytest.approx(0.05 + 50 / 90 * (FAST - 0.05))
    assert latencies["p95"] == pytest.approx(2 + 5 / 10 * (SLOW - 2))
    assert latencies["p99"] == pytest.approx(2 + 9 / 10 * (SLOW - 2))
    feed.set(10, fast=190)
    latencies = pipeline(viewer.snapshot(START + 20))
    assert latencies["p99"] == pytest.approx(0.05 + 99 / 100 * (FAST - 0.05))
    assert latencies["messages"] == 200
    feed.set(20)
    viewer.snapshot(START + 40)
    feed.set(20)
    assert pipeline(viewer.snapshot(START + 60))["p50"] is None


def test_each_node_of_the_graph_has_its_metrics(feed: Feed, viewer: Viewer) -> None:
    feed.set(10, fast=100, outputs=300, set_aside=3)
    nodes = viewer.snapshot(START + 10)["nodes"]
    described = viewer.ask("/application").json
    (group,) = described["groups"]
    source, split, count, sink = (nodes[node["id"]] for node in group["nodes"])
    failed = {"set_aside": 3, "late": 0}
    assert source == {"rate": 10, "in": 103, "out": 100, "microseconds": None, **failed}
    assert split["in"] == 100
    assert split["out"] == 300
    assert split["microseconds"] == pytest.approx(5)
    assert (count["rate"], sink["rate"]) == (30, 30)
    assert nodes[described["states"][0]["id"]] == {"entities": 26}


def test_failed_keys_are_shown_where_they_lead_and_each_encoder_has_its_own_metrics(
    feed: Feed,
) -> None:
    @wallaroo.computation(name="shout")
    def shout(line: str) -> str:
        return line.upper()

    @wallaroo.state_computation(name="count", state=counting.Count)
    def count(line: str, _: counting.Count) -> str:
        return line

    sinks = [wallaroo.TCPSinkConfig("", port, counting.as_line) for port in (0, 1)]
    lines = wallaroo.source(PIPELINE, wallaroo.TCPSourceConfig("", 0, counting.decode))
    shouted = lines.key_by(counting.whole).to(shout).key_by(counting.whole)
    named = shouted.to(count).to_sinks([sinks[0].named("archive"), sinks[1]])
    application = resolve(wallaroo.build_application("Counting", named))
    archive, other = ((PIPELINE, f"encoder of {name}") for name in ("archive", f"{PIPELINE} 2"))
    with serving(feed, application=application) as dashboard:
        dashboard.viewer.snapshot(START)
        feed.set(
            10,
            more=[
                Sample(SET_ASIDE, (PIPELINE, "key_by whole"), 4),
                Sample(SET_ASIDE, (PIPELINE, "key of count"), 2),
                Sample(STEP_RESULTS, archive, 100),
                Sample(STEP_RESULTS, other, 20),
                Sample(STEP_SECONDS, archive, Distribution((1,), 7e-6)),
                Sample(STEP_SECONDS, other, Distribution((1,), 90e-6)),
            ],
        )
        snapshot = dashboard.viewer.snapshot(START + 10)
        (group,) = dashboard.viewer.ask("/application").json["groups"]
    nodes = {node["name"]: snapshot["nodes"][node["id"]] for node in group["nodes"]}
    assert (nodes["shout"]["set_aside"], nodes["count"]["set_aside"]) == (4, 2)
    times = [nodes[name]["microseconds"] for name in ("archive", f"{PIPELINE} 2")]
    assert times == [pytest.approx(7), pytest.approx(90)]
    assert pipeline(snapshot)["out"] == 12


def test_the_gateway_and_the_driver_are_shown_with_their_counts(feed: Feed, viewer: Viewer) -> None:
    feed.set(10, fast=5, backlog=40, connections=2, set_aside=3, problem="disk full")
    snapshot = viewer.snapshot(START + 10)
    assert snapshot["backlog"] == {"messages": 40, "bytes": 4_000, "seconds": 0.5}
    assert (snapshot["point"]["backlog"], snapshot["point"]["backlog_s"]) == (40, 0.5)
    (source,) = snapshot["sources"]
    assert (source["name"], source["where"]) == (PIPELINE, "127.0.0.1:7010")
    assert (source["accepted"], source["backlog"], source["rate"]) == (48, 40, 4.8)
    assert (source["failures"], source["problem"]) == (1, "disk full")
    counts = ("connections", "set_aside", "dead_letters", "unknown_key", "late", "query_restarts")
    assert [snapshot[count] for count in counts] == [2, 3, 3, 7, 8, 0]
    assert snapshot["workers"] == {"wanted": 2, "alive": 1}
    assert snapshot["publication_age_s"] == 1.5


def test_keys_publications_and_errors_are_shown_as_the_run_reports_them(
    feed: Feed, viewer: Viewer
) -> None:
    failed = FailedMessage(PIPELINE, "decoder", "application.py:52", "ValueError: \ud800", "b'x'")
    feed.set(
        10,
        hot_keys=[HotKey("word totals", "'z'", 12.5, 0.25)],
        publications=[Publication(7, 2, 40, START, 0.5, 0.1)],
        errors=[KnownError(failed, 3, START + 1, START + 2)],
    )
    snapshot = viewer.snapshot(START + 10)
    assert snapshot["hot_keys"] == [
        {"state": "word totals", "key": "'z'", "messages": 12.5, "share": 0.25}
    ]
    phases = {"run": 0.5, "commit": 0.1}
    assert snapshot["publications"] == [
        {"number": 7, "messages": 40, "started": START, "phases": phases}
    ]
    (error,) = snapshot["errors"]
    assert error == {
        "pipeline": PIPELINE,
        "step": "decoder",
        "place": "application.py:52",
        "error": "ValueError: \ud800",
        "message": "b'x'",
        "count": 3,
        "first": START + 1,
        "last": START + 2,
    }


def test_a_pause_and_restarts_are_told_with_their_times_and_reasons(
    feed: Feed, viewer: Viewer
) -> None:
    snapshot = viewer.snapshot(START)
    assert (snapshot["paused_since"], snapshot["interruption"]) == (None, None)
    assert snapshot["restarts"] == []
    feed.pause.since = START + 5
    query = [Restart(START, "a worker died"), Restart(START + 9, "the disk is full")]
    gateway = [Restart(START + 7, "it was killed by SIGKILL")]
    feed.set(
        10,
        restarts={"query": query, "gateway": gateway},
        interruption="the query restarts: the disk is full",
        sink_problem="Connection refused",
    )
    snapshot = viewer.snapshot(START + 10)
    assert snapshot["paused_since"] == START + 5
    assert snapshot["interruption"] == "the query restarts: the disk is full"
    assert [(one["part"], one["reason"]) for one in snapshot["restarts"]] == [
        ("query", "the disk is full"),
        ("gateway", "it was killed by SIGKILL"),
        ("query", "a worker died"),
    ]
    assert snapshot["sinks"][0]["problem"] == "Connection refused"


def test_points_are_kept_for_ten_minutes(feed: Feed, viewer: Viewer) -> None:
    for _ in range(3):
        feed.set(300)
        viewer.snapshot(feed.monotonic())
    with viewer.events() as events:
        times = {point["time"] for point in next(events).data}
    assert times == {START + 300, START + 600, START + 900}


def test_the_ends_of_epochs_are_shown(feed: Feed) -> None:
    feed.set(epochs=Distribution((1, 2), 0.45))
    with serving(feed) as dashboard:
        snapshot = dashboard.viewer.snapshot(START)
    assert snapshot["epochs"] == {"ended": 3, "stood_s": 0.45, "age_s": 9.0}


def test_an_engine_that_tells_nothing_of_epochs_shows_none(viewer: Viewer) -> None:
    assert viewer.snapshot(START)["epochs"] is None


def test_a_run_that_goes_on_with_other_code_is_shown_with_its_pipelines(feed: Feed) -> None:
    watch = Watch(load(WORD_COUNT), cast("Any", feed))
    try:
        before = watch.application()
        other = dataclasses.replace(load(WORD_COUNT), name="another name")
        with watch.replaced_by(other):
            assert watch.application() == before
        assert watch.application()["name"] == "another name"
        assert watch.now(0.0, PATIENCE_S) is not None  # it is still polled
    finally:
        watch.stop()


def test_the_messages_that_joins_keep_are_shown_as_such(feed: Feed) -> None:
    items = wallaroo.source(PIPELINE, wallaroo.TCPSourceConfig("", 0, joining.decode))
    joined = items.key_by(joining.key).join(items.key_by(joining.key), joining.near)
    sink = wallaroo.TCPSinkConfig("", 0, joining.encode)
    feed.set(1, more=[Sample(OPEN_WINDOWS, ("near",), 3)])
    watch = Watch(
        resolve(wallaroo.build_application("Joining", joined.to_sink(sink))), cast("Any", feed)
    )
    try:
        (state,), snapshot = watch.application()["states"], watch.now(0.0, PATIENCE_S)
        assert snapshot is not None
        assert snapshot["nodes"][state["id"]] == {"entities": 0, "kept_messages": 3}
        assert snapshot["windows"] == {"of_joins": True, "open": 3, "watermark_s": None}
    finally:
        watch.stop()
