"""Metrics of the engine: publications, epochs, and errors."""

from __future__ import annotations

import pytest

from wallaroo.engine.realtime.metrics import EngineMetrics
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import Metric
from wallaroo.metrics.samples import Distribution
from wallaroo.wire.chunk_messages import News, Publication
from wallaroo.wire.records import FailedMessage, Tally
from wallaroo.wire.task_metrics import TaskMetrics


def tally(messages: int) -> Tally:
    return Tally(metrics=TaskMetrics(arrivals={(0, 0): messages}))


def distribution(metrics: EngineMetrics, metric: Metric, *labels: str) -> tuple[int, float]:
    """Number and sum of the values of *metric*."""
    (found,) = [
        sample.value
        for sample in metrics.samples()
        if (sample.metric, sample.labels) == (metric, labels)
    ]
    assert isinstance(found, Distribution)
    return sum(found.counts), found.sum


def test_publications_that_are_reported_together_count_one_by_one() -> None:
    metrics = EngineMetrics()
    published = [Publication(2, 2, 30, 1.0, 0.25, 0.5), Publication(3, 1, 10, 2.0, 0.5, 1.0)]
    metrics.on_published(News(tally(40), published))
    assert metrics.publications() == published
    assert distribution(metrics, catalogue.PUBLICATION_MESSAGES) == (2, 40)
    assert distribution(metrics, catalogue.PUBLICATION_SECONDS, "run") == (2, 0.75)
    assert distribution(metrics, catalogue.PUBLICATION_SECONDS, "commit") == (2, 1.5)


def test_the_ends_of_epochs_are_counted_with_the_time_that_the_stream_stood() -> None:
    metrics = EngineMetrics()
    metrics.on_epochs([0.125, 0.25])
    assert distribution(metrics, catalogue.EPOCH_SECONDS) == (2, 0.375)
    (age,) = [s.value for s in metrics.samples() if s.metric is catalogue.EPOCH_AGE]
    assert isinstance(age, float)


def test_errors_are_counted_with_their_first_and_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = EngineMetrics()
    for number, (place, count) in enumerate([("a.py:1", 30), ("a.py:2", 1), ("a.py:1", 12)]):
        monkeypatch.setattr(
            "wallaroo.engine.realtime.metrics.time.time", lambda at=float(number): at
        )
        failed = Tally()
        for _ in range(count):
            failed.add_set_aside(FailedMessage("p", "s", place, f"E: {number}", "b'm'"))
        metrics.on_published(News(failed))
    newest, other = metrics.errors()
    assert (newest.example.place, newest.example.error) == ("a.py:1", "E: 2")
    assert (newest.count, newest.first, newest.last) == (42, 0.0, 2.0)
    assert (other.count, other.first, other.last) == (1, 1.0, 1.0)
