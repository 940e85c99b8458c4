"""Metrics in the outbox's database: latencies of any size, and hot keys at any pace."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

import pytest

from wallaroo.gateway.outbox.metrics import SCHEMA, MetricsTable
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import LATENCY_BOUNDS_S
from wallaroo.metrics.samples import Distribution, by_labels
from wallaroo.wire.records import Tally
from wallaroo.wire.task_metrics import TaskMetrics, WindowFigures

SECOND = 1_000_000_000
NOW = 1_750_000_000 * SECOND


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    yield database
    database.close()


def latencies(table: MetricsTable) -> dict[float, int]:
    """Messages by the upper bound of their latency."""
    found = by_labels(table.samples([["Votes"]]), catalogue.LATENCY)["Votes",]
    assert isinstance(found, Distribution)
    bounds = (*LATENCY_BOUNDS_S, float("inf"))
    return {bound: count for bound, count in zip(bounds, found.counts, strict=True) if count}


def test_latencies_are_counted_from_a_millisecond_to_hours(database: sqlite3.Connection) -> None:
    table = MetricsTable(database)
    seconds = [0.0005, 0.0025, 0.02, 0.02, 0.09, 7200.0]
    for one in seconds:
        metrics = TaskMetrics(arrivals={(0, NOW - int(one * SECOND)): 1})
        table.add(Tally(metrics=metrics), NOW)
    assert latencies(table) == {0.001: 1, 0.003: 1, 0.025: 2, 0.1: 1, float("inf"): 1}
    total = by_labels(table.samples([["Votes"]]), catalogue.LATENCY)["Votes",].sum
    assert total == pytest.approx(sum(seconds))


def test_latencies_of_versions_with_fewer_buckets_count(database: sqlite3.Connection) -> None:
    saved = [(catalogue.LATENCY.name, json.dumps([0, place]), 5 + place) for place in (0, 1, 26)]
    database.executemany("INSERT INTO figure VALUES (?, ?, ?)", saved)
    table = MetricsTable(database)
    assert latencies(table) == {0.025: 5, 0.05: 6, float("inf"): 31}


def test_keys_fade_with_time_and_not_with_publications(database: sqlite3.Connection) -> None:
    table = MetricsTable(database)
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


def test_open_windows_add_up_over_buckets_and_the_latest_watermark_counts(
    database: sqlite3.Connection,
) -> None:
    table = MetricsTable(database)

    def add(bucket: int, figures: WindowFigures) -> None:
        table.add(Tally(metrics=TaskMetrics(windows={("visits", bucket): figures})), NOW)

    add(0, WindowFigures(3, 5 * SECOND))
    add(1, WindowFigures(4, 2 * SECOND))
    add(1, WindowFigures(1, None))
    samples = list(table.samples([]))
    assert by_labels(samples, catalogue.OPEN_WINDOWS) == {("visits",): 4}
    assert by_labels(samples, catalogue.WATERMARK) == {("visits",): 5.0}


def test_a_watermark_of_any_time_is_held(database: sqlite3.Connection) -> None:
    """A message may say that it is of the year 3000, or in another unit of time."""
    table = MetricsTable(database)
    figures = WindowFigures(1, 10**30)
    table.add(Tally(metrics=TaskMetrics(windows={("visits", 0): figures})), NOW)
    (watermark,) = by_labels(table.samples([]), catalogue.WATERMARK).values()
    assert watermark == pytest.approx(2**63 / 1e9)
