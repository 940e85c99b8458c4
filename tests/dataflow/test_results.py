"""What a chunk has counted is reported with it, and only once."""

from __future__ import annotations

from wallaroo.dataflow.results import TaskResults
from wallaroo.wire.task_metrics import StoredFigures, TaskMetrics, WindowFigures


def test_all_metrics_of_a_chunk_are_taken_once() -> None:
    results = TaskResults()
    metrics = results.metrics
    metrics.step("p", "s").note(3, 2, 0.5)
    metrics.add_arrivals([(0, 1, 2)])
    metrics.entities["counts", 1] = 4
    metrics.windows["counts", 1] = WindowFigures(1, 2)
    metrics.log_bytes["counts", 1] = 5
    metrics.stored["counts", 1] = StoredFigures(5, 6, 7)
    metrics.add_hot_keys("counts", {"a": 6}, 6)
    metrics.add_expired("counts")
    metrics.processors["one", 0] = (1.5, 0.5)
    counted = TaskMetrics.from_json(metrics.to_json())
    assert all(vars(counted).values()), "a metric that this test does not count"
    _, tally = results.take()
    assert tally.metrics == counted
    _, tally = results.take()
    assert tally.metrics == TaskMetrics()
