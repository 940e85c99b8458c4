"""Values of metrics, and their transport between processes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.metrics.catalogue import METRICS, Metric


class Distribution(NamedTuple):
    """The values of a histogram or a summary."""

    counts: tuple[int, ...]
    """Number of values in each bucket, the one without upper bound last; for a summary, only the
    total number of values."""
    sum: float
    """Sum of all values."""


class Sample(NamedTuple):
    """A metric's value for one set of labels."""

    metric: Metric
    labels: tuple[str, ...]
    """Values of the labels, in the metric's order."""
    value: float | Distribution


class Histogram:
    """A histogram that records values.

    Example:
        >>> from wallaroo.metrics.catalogue import PUBLICATION_MESSAGES
        >>> histogram = Histogram(PUBLICATION_MESSAGES)
        >>> histogram.observe(5)
        >>> histogram.sample().value.counts[:3], histogram.sample().value.sum
        ((0, 1, 0), 5.0)
    """

    def __init__(self, metric: Metric, *labels: str) -> None:
        self._metric, self._labels = metric, labels
        self._counts = [0] * (len(metric.bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count *value*."""
        self._counts[bisect_left(self._metric.bounds, value)] += 1
        self._sum += value

    def sample(self) -> Sample:
        """Return the current values."""
        return Sample(self._metric, self._labels, Distribution(tuple(self._counts), self._sum))


def to_json(samples: Iterable[Sample]) -> list[Any]:
    """Convert *samples* to plain JSON values."""
    return [
        [
            metric.name,
            list(labels),
            [list(value.counts), value.sum] if isinstance(value, Distribution) else value,
        ]
        for metric, labels, value in samples
    ]


def from_json(values: Sequence[Any]) -> list[Sample]:
    """Convert the result of `to_json` back; unknown metrics are skipped."""
    return [
        Sample(METRICS[name], tuple(labels), _value(value))
        for name, labels, value in values
        if name in METRICS
    ]


class HotKey(NamedTuple):
    """A key with many messages recently."""

    state: str
    """Name of the state."""
    key: str
    """The key, printable."""
    messages: float
    """Its recent messages: older ones count less."""
    share: float
    """Its part of the recent messages of the state, from 0 to 1."""


def by_labels(samples: Iterable[Sample], metric: Metric) -> Mapping[tuple[str, ...], Any]:
    """Return the values of *metric* in *samples*, by labels."""
    return {labels: value for of, labels, value in samples if of is metric}


def _value(value: Any) -> float | Distribution:
    if isinstance(value, list):
        counts, total = value
        return Distribution(tuple(counts), total)
    return float(value)
