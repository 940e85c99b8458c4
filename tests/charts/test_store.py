"""What the charts make of state on an object store."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.harness import CHARTS, Helm, Object, executor_pod, pod_spec

URI = "s3a://states/market-spread"
STATE = {
    "uri": URI,
    "endpoint": "https://s3.example:9000",
    "region": "eu-central-1",
    "credentialsSecret": "store",
}


def objects(helm: Helm, chart: str, **state: Any) -> list[Object]:
    return helm.objects(chart, {"storage": {"state": {**STATE, **state}}})


def driver_spec(found: list[Object]) -> Object:
    spec: Object = pod_spec(found, "driver")
    return spec


def executor_spec(found: list[Object]) -> Object:
    spec: Object = executor_pod(found)["spec"]
    return spec


def environment(pod: Object) -> dict[str, Any]:
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom"))
        for entry in pod["containers"][0].get("env", [])
        if entry["name"].startswith("AWS_")
    }


@pytest.mark.parametrize("chart", CHARTS)
def test_driver_and_executors_need_no_volume_for_the_state(helm: Helm, chart: str) -> None:
    found = objects(helm, chart)
    claims = [o["metadata"]["name"] for o in found if o["kind"] == "PersistentVolumeClaim"]
    assert claims == [f"{chart}-journal"]
    for pod in (driver_spec(found), executor_spec(found)):
        assert "state" not in {volume["name"] for volume in pod["volumes"]}
        assert "state" not in {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert f"--state-dir={URI}" in driver_spec(found)["containers"][0]["args"]


def test_driver_and_executors_are_told_the_store_and_its_credentials(helm: Helm) -> None:
    found = objects(helm, "market-spread")
    expected: dict[str, Any] = {
        "AWS_ENDPOINT_URL_S3": STATE["endpoint"],
        "AWS_REGION": STATE["region"],
    }
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        expected[name] = {"secretKeyRef": {"name": "store", "key": name}}
    assert environment(driver_spec(found)) == expected
    assert environment(executor_spec(found)) == expected
    gateway = pod_spec(found, "gateway")
    assert environment(gateway) == {}


def test_without_a_secret_the_platform_gives_credentials(helm: Helm) -> None:
    found = objects(helm, "market-spread", endpoint="", region="", credentialsSecret="")
    assert environment(driver_spec(found)) == environment(executor_spec(found)) == {}


def test_executors_may_run_on_any_node(helm: Helm) -> None:
    affinity = executor_spec(objects(helm, "market-spread"))["affinity"]
    assert "podAffinity" not in affinity
    assert affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    values = {
        "storage": {"state": STATE},
        "executor": {"nodeSelector": {"pool": "cheap"}, "topologySpreadConstraints": spread},
    }
    pod = executor_spec(helm.objects("market-spread", values))
    assert pod["nodeSelector"] == {"pool": "cheap"}
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "zone"


@pytest.mark.parametrize("state", [URI, ""])
def test_an_archive_on_the_store_needs_its_credentials_in_the_gateway_and_no_volume(
    helm: Helm, state: str
) -> None:
    archive = "s3a://archive/market-spread"
    storage = {"state": {**STATE, "uri": state}}
    values = {"gateway": {"archiveDirectory": archive}, "storage": storage}
    found = helm.objects("market-spread", values)
    gateway = pod_spec(found, "gateway")
    assert f"--archive={archive}" in gateway["containers"][0]["args"]
    with_state = environment(driver_spec(objects(helm, "market-spread")))
    assert environment(gateway) == with_state
    assert environment(driver_spec(found)) == (with_state if state else {})
