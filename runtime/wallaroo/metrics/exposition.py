"""Formats samples for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from wallaroo.metrics.catalogue import METRICS, Metric
from wallaroo.metrics.samples import Distribution, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the result of `exposition`."""


def exposition(samples: Iterable[Sample]) -> str:
    """Format *samples* in Prometheus's text format, with the help text of each metric.

    Example:
        >>> from wallaroo.metrics.catalogue import CONNECTIONS
        >>> print(exposition([Sample(CONNECTIONS, (), 3)]), end="")
        # HELP wallaroo_connections Open connections of senders.
        # TYPE wallaroo_connections gauge
        wallaroo_connections 3.0
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(samples))
    return generate_latest(registry).decode()


class _Samples(Collector):
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples: dict[str, list[Sample]] = {}
        for sample in samples:
            self._samples.setdefault(sample.metric.name, []).append(sample)

    def collect(self) -> Iterator[Family]:
        for metric in METRICS.values():
            if samples := self._samples.get(metric.name):
                yield _family(metric, samples)


def _family(metric: Metric, samples: list[Sample]) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
        for _, labels, value in samples:
            assert isinstance(value, Distribution)
            buckets = list(zip(bounds, accumulate(value.counts), strict=True))
            histogram.add_metric(labels, buckets, value.sum)
        return histogram
    if metric.kind == "summary":
        summary = SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
        for _, labels, value in samples:
            assert isinstance(value, Distribution)
            summary.add_metric(labels, value.counts[0], value.sum)
        return summary
    of_kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = of_kind(metric.name, metric.help, labels=metric.labels)
    for _, labels, number in samples:
        assert not isinstance(number, Distribution)
        family.add_metric(labels, number)
    return family
