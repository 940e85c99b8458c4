"""What the charts make of what a cluster has: kept claims, a driver that refuses its partitions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.harness import HELM, Helm, Object, RefusedError, one

Render = Callable[..., list[Object]]
CLAIM = {
    "metadata": {"annotations": {"wallaroo/partitions": "8"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}
"""A claim of the state, as an uninstall with `storage.keep` leaves it."""
WORKERS = {"data": {"partitions": "4"}}
"""The ConfigMap of a release with four partitions."""


@pytest.fixture
def render(helm: Helm, tmp_path: Path) -> Render:
    """Renders a chart for a cluster that has some objects, given by the ends of their names."""
    chart = tmp_path / "market-spread"
    shutil.copytree(HELM / "market-spread", chart)

    def rendered(values: dict[str, Any], **existing: Object) -> list[Object]:
        # a chart's own definition takes the place of the library's, which asks the cluster
        (chart / "templates" / "_existing.tpl").write_text(
            '{{- define "wallaroo.existing" -}}'
            f"{{{{- get (`{json.dumps(existing)}` | fromJson) .name | default dict | toJson -}}}}"
            "{{- end }}"
        )
        made = helm.render(chart, values, release="market-spread")
        return [found for found in yaml.load_all(made, yaml.CSafeLoader) if found]

    return rendered


def driver(ready: int, replicas: int = 1) -> Object:
    return {"spec": {"replicas": replicas}, "status": {"readyReplicas": ready} if ready else {}}


def test_the_claim_of_the_state_says_how_many_partitions_it_has(render: Render) -> None:
    claim = one(render({"partitions": 4}), "PersistentVolumeClaim", "-state")
    assert claim["metadata"]["annotations"]["wallaroo/partitions"] == "4"


def test_a_kept_claim_with_other_partitions_is_refused_at_install(render: Render) -> None:
    with pytest.raises(RefusedError, match="partitions is 4, and the state of this release has 8"):
        render({"partitions": 4}, state=CLAIM)
    assert render({"partitions": 8}, state=CLAIM)
    assert render({"partitions": 4, "repartition": True}, state=CLAIM)


def test_a_claim_of_ones_own_is_not_looked_at(render: Render) -> None:
    mine = {"storage": {"state": {"existingClaim": "mine"}}}
    assert render({"partitions": 4, **mine}, state=CLAIM)


def test_a_release_that_runs_keeps_its_partitions(render: Render) -> None:
    refused = "partitions is 8, and the state of this release has 4"
    with pytest.raises(RefusedError, match=refused):
        render({"partitions": 8}, workers=WORKERS, driver=driver(ready=1))
    with pytest.raises(RefusedError, match=refused):  # it is stopped
        render({"partitions": 8}, workers=WORKERS, driver=driver(ready=0, replicas=0))


def test_a_driver_that_refuses_its_partitions_can_be_given_others(render: Render) -> None:
    """It says "use 8", which only the state itself can know."""
    assert render({"partitions": 8}, workers=WORKERS, driver=driver(ready=0))
    claim = {**CLAIM, "metadata": {"annotations": {"wallaroo/partitions": "4"}}}
    assert render({"partitions": 8}, workers=WORKERS, driver=driver(ready=0), state=claim)


def checks(objects: list[Object]) -> list[Object]:
    return [o for o in objects if o["metadata"]["name"].endswith("-upgrade-check")]


def test_an_upgrade_checks_what_the_release_does_not_run_yet(render: Render) -> None:
    gateway = one(render({}), "Deployment", "-gateway")
    old: list[dict[str, Any]] = [{"workers": 3}, {"image": {"tag": "0.1.0"}}, {"args": []}]
    new: list[dict[str, Any]] = [
        {"image": {"tag": "0.2.0"}},
        {"args": ["--fast"]},
        {"outputs": ["results.example:7002"]},
        {"gateway": {"extraEnv": [{"name": "MODE", "value": "fast"}]}},
    ]
    assert not any(checks(render(values, gateway=gateway)) for values in old)
    assert all(checks(render(values, gateway=gateway)) for values in new)
    left = {"upgrade-check": {"kind": "Pod"}}
    assert checks(render({}, gateway=gateway, **left)), "which removes the pod that has failed"


def test_settings_of_topics_are_checked_as_the_upgrade_will_have_them(render: Render) -> None:
    def values(compression: str) -> dict[str, Any]:
        topics = {"enabled": True, "secretName": "mine"}
        return {"kafka": {**topics, "settings": {"compression.type": compression}}}

    gateway = one(render(values("zstd")), "Deployment", "-gateway")
    assert not checks(render(values("zstd"), gateway=gateway))
    (found,) = checks(render(values("gzip"), gateway=gateway))
    assert found["metadata"]["annotations"]["wallaroo/kafka-settings"] == "compression.type=gzip\n"
    mounted = {volume["name"] for volume in found["spec"]["volumes"]}
    assert {"kafka", "kafka-settings"} <= mounted


def running(objects: list[Object], *, ready: bool = True) -> Object:
    """The driver in a release of *objects*."""
    found: Object = one(objects, "Deployment", "-driver")
    return {**found, "status": {"readyReplicas": int(ready)}}


def checked_state(check: Object) -> str | None:
    """Where the state is that a check loads."""
    (container,) = check["spec"]["containers"]
    options = container["args"][: container["args"].index("--")]
    found = [one.partition("=")[2] for one in options if one.startswith("--state-dir=")]
    return found[0] if found else None


def test_an_upgrade_checks_the_state_where_the_driver_has_it(render: Render) -> None:
    before = render({})
    gateway, pod = one(before, "Deployment", "-gateway"), {"driver": running(before)}
    new: dict[str, Any] = {
        "image": {"tag": "0.2.0"},
        "driver": {"nodeSelector": {"disk": "fast"}, "surge": False},
    }
    (check,) = checks(render(new, gateway=gateway, **pod))
    assert checked_state(check) == "/var/lib/wallaroo/state"
    (mount,) = [m for m in check["spec"]["containers"][0]["volumeMounts"] if m["name"] == "state"]
    assert mount["readOnly"]
    (term,) = check["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "driver"
    assert check["spec"]["nodeSelector"] == {"disk": "fast"}

    shared: dict[str, Any] = {"storage": {"state": {"accessModes": ["ReadWriteMany"]}}}
    (check,) = checks(render({**new, **shared}, gateway=gateway, **pod))
    assert checked_state(check)
    assert [*check["spec"]["affinity"]["podAffinity"]] == [
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert "nodeSelector" not in check["spec"]


@pytest.mark.parametrize(
    "moves",
    [
        {"nodeSelector": {"disk": "fast"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
                        ]
                    }
                }
            }
        },
    ],
)
@pytest.mark.parametrize("part", ["driver", "gateway"])
def test_a_pod_moves_from_the_node_of_its_volume_only_when_the_old_one_has_ended(
    render: Render, part: str, moves: dict[str, Any]
) -> None:
    def there(values: dict[str, Any]) -> dict[str, Any]:
        found = one(render(values), "Deployment", f"-{part}")
        return {part: {**found, "status": {"readyReplicas": 1}}}

    here = there({})
    with pytest.raises(RefusedError, match=rf"Set {part}\.surge=false in this upgrade to move it"):
        render({part: moves}, **here)
    assert render({part: {**moves, "surge": False}}, **here)
    assert render({part: moves}, **there({part: moves}))


def test_a_driver_without_a_volume_of_its_own_node_moves_at_any_time(render: Render) -> None:
    moves = {"nodeSelector": {"disk": "fast"}}
    here = {"driver": running(render({}))}
    shared: dict[str, Any] = {"storage": {"state": {"accessModes": ["ReadWriteMany"]}}}
    assert render({"driver": moves, **shared}, **here)


def test_an_upgrade_checks_the_state_on_an_object_store(render: Render) -> None:
    values: dict[str, Any] = {
        "storage": {"state": {"uri": "s3a://states/shop", "credentialsSecret": "store"}}
    }
    before = render(values)
    gateway, pod = one(before, "Deployment", "-gateway"), {"driver": running(before)}
    (check,) = checks(render({**values, "args": ["--fast"]}, gateway=gateway, **pod))
    assert checked_state(check) == "s3a://states/shop"
    (container,) = check["spec"]["containers"]
    assert "AWS_ACCESS_KEY_ID" in [variable["name"] for variable in container["env"]]
    assert "state" not in [volume["name"] for volume in check["spec"]["volumes"]]


@pytest.mark.parametrize(
    ("values", "ready"),
    [
        ({}, False),
        ({"upgradeCheck": {"state": False}}, True),
        ({"storage": {"state": {"existingClaim": "another"}}}, True),
        ({"storage": {"state": {"uri": "s3a://states/moved"}}}, True),
    ],
)
def test_an_upgrade_checks_no_state_that_the_driver_does_not_have(
    render: Render, values: dict[str, Any], ready: bool
) -> None:
    before = render({})
    gateway, pod = (
        one(before, "Deployment", "-gateway"),
        {"driver": running(before, ready=ready)},
    )
    (check,) = checks(render({"args": ["--fast"], **values}, gateway=gateway, **pod))
    assert checked_state(check) is None
    assert "state" not in [volume["name"] for volume in check["spec"]["volumes"]]


def test_nothing_is_checked_twice_whether_the_driver_is_ready(render: Render) -> None:
    before = render({})
    gateway = one(before, "Deployment", "-gateway")
    for ready in (True, False):
        pod = {"driver": running(before, ready=ready)}
        assert not checks(render({}, gateway=gateway, **pod))


def test_nothing_is_checked_when_it_shall_not_be(render: Render) -> None:
    assert not checks(render({"upgradeCheck": {"enabled": False}}))
    assert not checks(render({"stopped": True}))


def test_a_check_that_failed_goes_with_the_release(render: Render) -> None:
    uid = "0b9c7a6e-5d51-4a3e-9f0e-3c1d2b4a5f60"
    (check,) = checks(render({}, gateway={"metadata": {"uid": uid}}))
    (owner,) = check["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (
        "Deployment",
        "market-spread-gateway",
        uid,
    )
