"""Which keys have the most messages is told from time to time."""

from __future__ import annotations

from wallaroo.dataflow.hot_keys import HotKeys
from wallaroo.wire.task_metrics import TaskMetrics


def test_counts_of_several_chunks_are_reported_together() -> None:
    now = 100.0
    metrics = TaskMetrics()
    hot = HotKeys({3: "totals"}, metrics, lambda: now)
    hot.add(3, ["a", "b", "a"])
    hot.report()
    assert metrics.hot_keys == {("totals", "'a'"): 2, ("totals", "'b'"): 1}
    for _ in range(2):
        now += 0.01
        hot.add(3, ["a"])
        hot.add(3, ["b"] * 5)
        hot.report()
    assert metrics.keyed == {"totals": 3}
    now += 1
    hot.report()
    assert metrics.hot_keys == {("totals", "'a'"): 4, ("totals", "'b'"): 11}
    assert metrics.keyed == {"totals": 15}


def test_very_many_keys_do_not_wait() -> None:
    metrics = TaskMetrics()
    hot = HotKeys({0: "totals"}, metrics)
    hot.report()
    for start in range(0, 20_000, 1_000):
        hot.add(0, range(start, start + 1_000))
        hot.report()
    assert metrics.keyed == {"totals": 20_000}


def test_of_many_messages_some_stand_for_all() -> None:
    metrics = TaskMetrics()
    hot = HotKeys({0: "totals"}, metrics)
    hot.add(0, [*[7] * 16_000, *range(100, 1_000)])
    hot.report()
    assert metrics.hot_keys == {("totals", "7"): 16_000}
    assert metrics.keyed == {"totals": 16_900}
