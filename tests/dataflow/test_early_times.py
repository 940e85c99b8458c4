"""Event times before 1971 are hinted at, once for each step: most are milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import wallaroo
from tests.applications.counting import Count, count
from tests.dataflow.harness import drive_all
from wallaroo.dataflow import early_times
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MS = int(NOW.timestamp() * 1000)


def application(time_of: Any, *, windows: bool) -> Application:
    config = wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines")
    texts: Any = wallaroo.source("p", config).collect()
    if windows:
        timed = wallaroo.range_windows(wallaroo.seconds(1)).with_event_time(time_of)
        step: Any = timed.over(wallaroo.Count())
    else:
        keep: Any = {"state": Count, "ttl": wallaroo.hours(1), "event_time": time_of}
        decorate: Any = wallaroo.state_computation(name="totals", **keep)
        step = decorate(count.function)
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    return resolve(wallaroo.build_application("early", texts.to(step).to_sink(sink)))


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize(
    ("time_of", "hints"),
    [(lambda _: MS, 1), (lambda _: MS * 1_000_000, 0), (lambda _: NOW, 0)],
    ids=["milliseconds", "nanoseconds", "a datetime"],
)
def test_milliseconds_are_hinted_at(
    time_of: Any, hints: int, windows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(early_times, "_hinted", set())
    monkeypatch.setattr(early_times, "log_event", lambda *_, **more: told.append(more))
    made = application(time_of, windows=windows)
    driven = drive_all(made, [("p", b"a")] * 300, [0] * 300)
    assert not driven.tally.letters
    assert len(told) == hints
    assert all("which is 1970-01-01T00:29:27" in one["hint"] for one in told)
