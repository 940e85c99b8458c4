"""Alert rules and the Grafana dashboard: what they ask for exists, and the rules fire when due."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.charts.harness import HELM, Helm, one
from wallaroo.metrics.catalogue import METRICS

FILES = HELM / "wallaroo" / "files"
DOCS = HELM.parent / "docs"
SERIES = {
    metric.name + end
    for metric in METRICS.values()
    for end in {
        "histogram": ("_bucket", "_count", "_sum"),
        "summary": ("_count", "_sum"),
    }.get(metric.kind, ("",))
}
LABELS = {label for metric in METRICS.values() for label in metric.labels}


def expressions_of_alerts() -> list[str]:
    rules = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"][0]["rules"]
    return [rule["expr"] for rule in rules]


def expressions_of_panels() -> list[str]:
    panels = json.loads((FILES / "grafana.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def series(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\bwallaroo_\w+", text)}


def metrics_without(names: set[str]) -> set[str]:
    """The metrics of which no series is among *names*."""
    return {metric for metric in METRICS if not any(name.startswith(metric) for name in names)}


def test_every_series_that_is_asked_for_exists() -> None:
    assert series(expressions_of_alerts()) | series(expressions_of_panels()) <= SERIES


def test_the_dashboard_shows_every_metric_that_an_operator_watches() -> None:
    shown = series(expressions_of_panels())
    used = shown | series(expressions_of_alerts())
    assert metrics_without(used) == {
        "wallaroo_step_results_total",
        "wallaroo_state_log_bytes",
        "wallaroo_state_stored_bytes",
        "wallaroo_state_stored_reads_total",
        "wallaroo_epoch_end_seconds",
        "wallaroo_epoch_age_seconds",
        "wallaroo_workers_needed_cores",
        "wallaroo_workers_used_cores",
    }
    assert metrics_without(shown) == metrics_without(used)


def test_series_are_grouped_by_labels_that_they_have() -> None:
    grouped = {
        label.strip()
        for text in expressions_of_alerts() + expressions_of_panels()
        for labels in re.findall(r"\bby \(([^)]*)\)", text)
        for label in labels.split(",")
    }
    assert grouped <= LABELS | {"le"}


def test_the_rules_of_a_release_ask_for_its_own_series(helm: Helm) -> None:
    objects = helm.objects(
        "word-count",
        {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
        api_versions=("monitoring.coreos.com/v1",),
    )
    rule = one(objects, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    text = json.dumps(rule["spec"])
    assert "$scope" not in text
    assert 'service=~\\"word-count-(gateway|driver)\\"' in text
    assert "{{ $labels.step }}" in text


def test_alerts_link_to_what_to_do_where_the_page_is_published(helm: Helm) -> None:
    def links(runbooks: str) -> list[str | None]:
        values = {"prometheusRule": {"enabled": True, "runbooks": runbooks}}
        made = helm.objects("word-count", values, api_versions=("monitoring.coreos.com/v1",))
        (group,) = one(made, "PrometheusRule")["spec"]["groups"]
        return [rule["annotations"].get("runbook_url") for rule in group["rules"]]

    page = "https://docs.example/operations.html"
    anchors = re.findall(r'<a id="(wallaroo\w+)"></a>', (DOCS / "operations.md").read_text())
    assert links(page) == [f"{page}#{anchor}" for anchor in anchors]
    assert set(links("")) == {None}


def test_the_dashboard_is_a_config_map_that_grafana_finds(helm: Helm) -> None:
    objects = helm.objects("word-count", {"grafanaDashboard": {"enabled": True}})
    found = one(objects, "ConfigMap", "-grafana")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["wallaroo.json"])["title"] == "Wallaroo"


def test_neither_is_there_unless_it_is_wanted(helm: Helm) -> None:
    objects = helm.objects("word-count")
    assert not [o for o in objects if o["kind"] == "PrometheusRule"]
    assert not [o for o in objects if o["metadata"]["name"].endswith("-grafana")]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_rules_fire_when_they_should(tmp_path: Path) -> None:
    rules = (FILES / "alerts.yaml").read_text().replace("{$scope}", "")
    (tmp_path / "alerts.yaml").write_text(rules)
    shutil.copy(Path(__file__).with_name("alerts_test.yaml"), tmp_path)
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
