"""The metrics follow Prometheus's conventions, and the documentation has each of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers import ROOT
from wallaroo.metrics.catalogue import METRICS, Metric


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_have_units_and_kinds_as_prometheus_wants_them(metric: Metric) -> None:
    assert metric.name.startswith("wallaroo_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert "milli" not in metric.name
    assert metric.help.endswith(".")
    assert bool(metric.bounds) == (metric.kind == "histogram")
    assert list(metric.bounds) == sorted(set(metric.bounds))


def test_the_documentation_has_the_catalogue_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/metrics_table.py", "--check"], cwd=ROOT, check=False
    )
    assert done.returncode == 0, "make metrics writes the table anew"
