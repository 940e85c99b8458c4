"""The charts as files: documented, in step with their schema, whole when packaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.values_table import PAGE, VALUES, documented, page

from tests.charts.harness import CHARTS, HELM, Helm

SCHEMA = json.loads((HELM / "wallaroo/files/values.schema.json").read_text())
OPEN = {"affinity", "probe", "resources"}
"""Definitions of what Kubernetes describes, which are a value as a whole."""
FOR_HELM = {"global", "wallaroo"}
"""What helm puts among a chart's values."""


def paths(schema: dict[str, Any]) -> Iterator[str]:
    """Every value that *schema* knows, down to where anything goes."""
    for name, part in schema["properties"].items():
        for some in (part, *part.get("allOf", ())):
            there = (
                SCHEMA["definitions"][some["$ref"].rpartition("/")[2]] if "$ref" in some else some
            )
            kind = some.get("$ref", "").rpartition("/")[2]
            whole = kind in OPEN or there.get("type", "object") != "object"
            if "properties" in there and not whole:
                yield from (f"{name}.{path}" for path in paths(there))
                break
        else:
            yield name


def test_every_value_is_documented() -> None:
    assert [v.path for v in documented(VALUES.read_text()) if not v.text] == []


def test_the_schema_knows_every_value_and_no_other() -> None:
    known = {path for path in paths(SCHEMA) if path not in FOR_HELM}
    values = {value.path for value in documented(VALUES.read_text())}
    assert {p.removesuffix(".sizeLimit").removesuffix(".medium") for p in known} == values


def test_the_page_has_every_value() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "call make values"


@pytest.mark.parametrize("chart", [*CHARTS])
def test_lint_has_nothing_to_say(helm: Helm, chart: str) -> None:
    assert helm.lint(HELM / chart) == []


@pytest.mark.parametrize("chart", CHARTS)
def test_a_packaged_chart_renders_the_same(helm: Helm, chart: str, tmp_path: Path) -> None:
    mine = {"existingSecret": "mine"}
    values = {"token": mine, "sparkSecret": mine, "workers": 2}
    archive = helm.package(HELM / chart, tmp_path)
    assert helm.objects(archive, values, release="r") == helm.objects(chart, values, release="r")


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_takes_over_the_library_as_it_is(chart: str) -> None:
    said = yaml.safe_load((HELM / chart / "Chart.yaml").read_text())
    library = yaml.safe_load((HELM / "wallaroo/Chart.yaml").read_text())
    (dependency,) = said["dependencies"]
    assert dependency["version"] == library["version"]
    assert said["kubeVersion"] == library["kubeVersion"]
    assert (HELM / chart / "charts/wallaroo").resolve() == HELM / "wallaroo"
    assert (HELM / chart / "values.schema.json").resolve().parent == HELM / "wallaroo/files"
