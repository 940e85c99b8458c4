"""The examples of values by task: what the charts make of each is valid for every Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.harness import (
    HELM,
    Helm,
    executor_pod,
    invalid,
    pod_spec,
    pods,
    unrestricted,
)
from tests.charts.test_objects import NEWEST, OLDEST

EXAMPLES = {path.stem: path for path in sorted((HELM / "wallaroo/examples").glob("*.yaml"))}
APIS = ("monitoring.coreos.com/v1",)
CUSTOM = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that Kubernetes itself does not have."""
every_example = pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES.keys())


def made(helm: Helm, path: Path, kube_version: str = "") -> list[dict[str, Any]]:
    values = yaml.safe_load(path.read_text())
    return helm.objects("word-count", values, api_versions=APIS, kube_version=kube_version)


@every_example
@pytest.mark.parametrize("version", ["1.20.2", OLDEST, NEWEST])
def test_an_example_makes_valid_objects_and_restricted_pods(
    helm: Helm, path: Path, version: str
) -> None:
    objects = made(helm, path, kube_version=version)
    own = [o for o in [*objects, executor_pod(objects)] if o["kind"] not in CUSTOM]
    schema = version.removesuffix(".2")
    assert [problem for o in own if (problem := invalid(o, schema))] == []
    assert not any(unrestricted(spec) for _, spec in pods(objects))


@every_example
def test_an_example_says_in_its_first_line_what_it_is_for(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")


def test_the_page_names_every_example() -> None:
    page = (HELM.parent / "docs" / "kubernetes.md").read_text()
    assert [name for name in EXAMPLES if f"`{name}.yaml`" not in page] == []


def test_the_smallest_release_asks_for_less_than_the_default(helm: Helm) -> None:
    def requested(objects: list[dict[str, Any]], component: str) -> dict[str, str]:
        spec = pod_spec(objects, component.removeprefix("-"))
        found: dict[str, str] = spec["containers"][0]["resources"]["requests"]
        return found

    smallest, default = made(helm, EXAMPLES["smallest"]), helm.objects("word-count")
    assert requested(smallest, "-gateway") == {"cpu": "100m", "memory": "128Mi"}
    assert requested(smallest, "-driver") == {"cpu": "100m", "memory": "1Gi"}
    assert requested(default, "-driver") == {"cpu": "500m", "memory": "1536Mi"}
