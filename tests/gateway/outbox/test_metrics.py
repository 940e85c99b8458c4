"""Metrics in the outbox: latencies of any size, and hot keys at any pace."""

from __future__ import annotations

import json

import pytest

from wallaroo.gateway.outbox.metrics import MetricsTable
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import LATENCY_BOUNDS_S
from wallaroo.metrics.samples import Distribution, by_labels
from wallaroo.wire.records import Tally
from wallaroo.wire.task_metrics import StepMetrics, TaskMetrics, WindowFigures

SECOND = 1_000_000_000
NOW = 1_750_000_000 * SECOND


def latencies(table: MetricsTable) -> dict[float, int]:
    """Messages by the upper bound of their latency."""
    found = by_labels(table.samples([["Votes"]]), catalogue.LATENCY)["Votes",]
    assert isinstance(found, Distribution)
    bounds = (*LATENCY_BOUNDS_S, float("inf"))
    return {bound: count for bound, count in zip(bounds, found.counts, strict=True) if count}


def test_latencies_are_counted_from_a_millisecond_to_hours() -> None:
    table = MetricsTable()
    seconds = [0.0005, 0.0025, 0.02, 0.02, 0.09, 7200.0]
    for one in seconds:
        metrics = TaskMetrics(arrivals={(0, NOW - int(one * SECOND)): 1})
        table.add(Tally(metrics=metrics), NOW)
    assert latencies(table) == {0.001: 1, 0.003: 1, 0.025: 2, 0.1: 1, float("inf"): 1}
    total = by_labels(table.samples([["Votes"]]), catalogue.LATENCY)["Votes",].sum
    assert total == pytest.approx(sum(seconds))


def test_what_a_snapshot_has_is_added_to() -> None:
    """As often as there are snapshots, and whatever their order of values is."""
    whole, table = MetricsTable(), MetricsTable()
    for number in range(6):
        steps = {("Votes", "count"): StepMetrics(number, 2 * number, 1, 3, 0.5)}
        metrics = TaskMetrics(
            arrivals={(0, NOW - number * SECOND): number + 1},
            steps=steps,
            entities={("totals", number % 2): 7 + number},
            windows={("visits", number % 3): WindowFigures(number, number * SECOND)},
        )
        tally = Tally(metrics=metrics, unknown_keys={("totals", "'k'"): 2}, late={("p", "s"): 1})
        for one in (whole, table):
            one.add(tally, NOW)
        restored = MetricsTable()
        restored.restore(json.loads(json.dumps(table.tables())))
        table = restored
    made, expected = (sorted(map(repr, one.samples([["Votes"]]))) for one in (table, whole))
    assert made == expected


def test_keys_fade_with_time_and_not_with_publications() -> None:
    table = MetricsTable()
    for number in range(50):  # within 50 ms
        counts = TaskMetrics(hot_keys={("totals", "'a'"): 1}, keyed={"totals": 4})
        tally = Tally(metrics=counts)
        table.add(tally, NOW + number * SECOND // 1000)
    assert table.hot_keys() == [("totals", "'a'", 50, 0.25)]
    table.add(Tally(), NOW + SECOND)
    assert table.hot_keys() == [("totals", "'a'", 45, 0.25)]
    for number in range(1, 101):
        table.add(Tally(), NOW + number * SECOND)
    assert table.hot_keys() == []


def test_open_windows_add_up_over_buckets_and_the_latest_watermark_counts() -> None:
    table = MetricsTable()

    def add(bucket: int, figures: WindowFigures) -> None:
        table.add(Tally(metrics=TaskMetrics(windows={("visits", bucket): figures})), NOW)

    add(0, WindowFigures(3, 5 * SECOND))
    add(1, WindowFigures(4, 2 * SECOND))
    add(1, WindowFigures(1, None))
    samples = list(table.samples([]))
    assert by_labels(samples, catalogue.OPEN_WINDOWS) == {("visits",): 4}
    assert by_labels(samples, catalogue.WATERMARK) == {("visits",): 5.0}


def test_a_watermark_of_any_time_is_held() -> None:
    """A message may say that it is of the year 3000, or in another unit of time."""
    table = MetricsTable()
    figures = WindowFigures(1, 10**30)
    table.add(Tally(metrics=TaskMetrics(windows={("visits", 0): figures})), NOW)
    (watermark,) = by_labels(table.samples([]), catalogue.WATERMARK).values()
    assert watermark == pytest.approx(2**63 / 1e9)
