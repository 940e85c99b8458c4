"""The objects that the charts render, over many values."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import all_versions, latest_version

from tests.charts.harness import (
    CHARTS,
    Helm,
    Object,
    executor_pod,
    invalid,
    one,
    pod_spec,
    pods,
    unrestricted,
)
from wallaroo.cli.check import check
from wallaroo.cli.driver import driver
from wallaroo.cli.gateway import gateway
from wallaroo.cli.repartition import repartition
from wallaroo.cli.shadow import shadow
from wallaroo.run.kubernetes.permissions import VERBS

NEWEST = latest_version()
OLDEST = all_versions()[0].removesuffix("-local")
VERSIONS: dict[str, dict[str, str]] = {NEWEST: {}, OLDEST: {"kube_version": OLDEST}}
LABELS = {"app.kubernetes.io/part-of": "wallaroo"}
POD_OPTIONS: dict[str, Any] = {
    "podLabels": {"team": "trade"},
    "podAnnotations": {"note": "x"},
    "priorityClassName": "high",
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "stream", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
        }
    ],
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraInitContainers": [{"name": "fetch", "image": "curl:8"}],
    "extraContainers": [
        {"name": "proxy", "image": "proxy:2", "volumeMounts": [{"name": "more", "mountPath": "/m"}]}
    ],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "tmpVolume": {"sizeLimit": "1Gi"},
    "podDisruptionBudget": {"enabled": True},
}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything for pods": {
        "workers": 3,
        "imagePullSecrets": [{"name": "registry"}],
        "commonLabels": {"cost": "42"},
        "gateway": POD_OPTIONS | {"surge": False},
        "driver": POD_OPTIONS,
        "executor": POD_OPTIONS | {"cpuLimit": "2", "ephemeralStorage": "2Gi"},
        "storage": {"state": {"accessModes": ["ReadWriteMany"]}},
    },
    "load balancer": {
        "gateway": {
            "service": {
                "type": "LoadBalancer",
                "annotations": {"lb/internal": "true"},
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "externalTrafficPolicy": "Local",
            }
        }
    },
    "node port": {"gateway": {"service": {"type": "NodePort"}}},
    "outputs elsewhere": {"outputs": ["results.example:7002"], "args": ["--rate", 5]},
    "no network policies": {"networkPolicy": {"enabled": False}},
    "network policies with peers": {
        "networkPolicy": {
            "enabled": True,
            "senders": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "monitors": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        }
    },
    "network policies for nobody": {
        "events": [{"name": "prices", "port": 7020}],
        "networkPolicy": {
            "senders": [],
            "viewers": [],
            "monitors": [],
            "egress": {"gateway": [], "driver": [{"ports": [{"port": 6443}]}], "executor": []},
        },
    },
    "storage of one's own": {
        "token": {"existingSecret": "mine"},
        "sparkSecret": {"existingSecret": "other"},
        "storage": {"journal": {"existingClaim": "a"}, "state": {"existingClaim": "b"}},
    },
    "TLS inside": {"tls": {"door": {"secretName": "inner"}}},
    "shared storage": {
        "storage": {
            "keep": True,
            "journal": {"storageClass": "fast", "annotations": {"backup": "daily"}},
            "state": {"storageClass": "nfs", "accessModes": ["ReadWriteMany"], "size": "20Gi"},
        }
    },
    "accounts of one's own": {
        "rbac": {"create": False},
        "gateway": {"serviceAccount": {"create": False}},
        "driver": {"serviceAccount": {"create": False, "name": "spark"}},
        "executor": {"serviceAccount": {"name": "worker", "annotations": {"role": "x"}}},
    },
    "stopped": {"stopped": True},
    "repartition": {"repartition": True, "partitions": 16},
    "digest": {"image": {"digest": "sha256:" + "0" * 64}, "sparkConf": {"spark.x": True}},
    "no test": {"test": {"enabled": False}},
    "TLS everywhere": {
        "outputs": ["results.example:7002"],
        "tls": {
            "sources": {"secretName": "gateway-tls", "clientAuthorities": "senders"},
            "outputs": {"authorities": "receivers", "secretName": "gateway-tls"},
        },
        "test": {"tlsSecretName": "a-sender"},
    },
    "topics only": {
        "sources": [],
        "receiver": {"ports": []},
        "test": {"messages": [], "expect": []},
        "kafka": {
            "enabled": True,
            "brokers": ["broker-1.example:9092", "broker-2.example:9092"],
            "sources": [
                {"topic": "orders"},
                {"topic": "quotes", "name": "quotes", "brokers": ["[::1]:9093"]},
            ],
            "sinks": [{"topic": "totals"}],
            "settings": {"compression.type": "zstd", "message.max.bytes": 100_000_000},
            "secretName": "kafka",
        },
        "tls": {"kafka": {"authorities": "brokers-ca", "secretName": "a-client"}},
    },
    "topics beside ports": {
        "kafka": {"enabled": True, "secretName": "kafka", "secretKey": ""},
        "gateway": {"extraEnv": [{"name": "A", "value": "b"}]},
        "events": [{"name": "prices", "port": 7020}, {"name": "alerts", "port": 7021}],
        "networkPolicy": {"viewers": [{"namespaceSelector": {}}]},
        "args": ["--kafka_sink_max_message_size=500000"],
    },
    "dashboard": {
        "dashboard": {
            "enabled": True,
            "tokenSecret": "dashboard",
            "hosts": ["dashboard.example"],
            "service": {"type": "LoadBalancer", "port": 80, "annotations": {"lb/internal": "true"}},
        },
        "networkPolicy": {"enabled": True},
    },
    "routes": {
        "events": [{"name": "prices", "port": 7020}],
        "dashboard": {"enabled": True, "tokenSecret": "dashboard"},
        "routes": [
            {"host": "shop.example", "to": "prices", "path": "/prices"},
            {"host": "shop.example", "to": "orders", "path": "/orders"},
            {"host": "dashboard.example", "to": "dashboard"},
        ],
        "sources": [{"name": "orders", "port": 7010}, {"name": "market-data", "port": 7011}],
        "test": {"messages": []},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"cert-manager.io/cluster-issuer": "main"},
            "tlsSecretName": "shop-tls",
        },
    },
    "numbers from helm's --set": {
        "functionTimeoutSeconds": "2.5",
        "gateway": {"journalLimitGiB": "0.25", "resources": {"requests": {"cpu": 0.5}}},
    },
    "limits": {
        "functionTimeoutSeconds": 2.5,
        "acceptLostJournal": True,
        "skipDamaged": True,
        "onError": {"all": "stop", "sources": {"Market Data": "drop"}},
        "gateway": {
            "maxConnections": 2_000_000,
            "idleTimeoutSeconds": 0.5,
            "frameTimeoutSeconds": 7,
            "deadLetters": {"limitMiB": 64, "days": 7},
        },
        "driver": {"gatewayPatienceSeconds": 60},
    },
}
every_case = pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
every_chart = pytest.mark.parametrize("chart", CHARTS)


@every_chart
@every_case
def test_every_object_is_valid_for_the_newest_and_the_oldest_kubernetes(
    helm: Helm, chart: str, values: dict[str, Any]
) -> None:
    for version, options in VERSIONS.items():
        objects = helm.objects(chart, values, **options)
        wrong = [said for o in [*objects, executor_pod(objects)] if (said := invalid(o, version))]
        assert wrong == [], version


@every_case
def test_every_object_is_valid_for_kubernetes_1_20(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.objects("market-spread", values, kube_version="1.20.2")
    wrong = [said for o in [*objects, executor_pod(objects)] if (said := invalid(o, "1.20"))]
    assert wrong == []


TOGETHER = (
    *("everything for pods", "load balancer", "outputs elsewhere", "network policies with peers"),
    *("TLS inside", "shared storage", "accounts of one's own", "repartition", "digest"),
    *("topics beside ports", "dashboard", "limits"),
)
"""Cases that do not exclude each other."""


@pytest.mark.parametrize("first", TOGETHER)
def test_objects_of_two_cases_together_are_valid_for_each_kubernetes(
    helm: Helm, first: str
) -> None:
    wrong = []
    for second in TOGETHER[TOGETHER.index(first) + 1 :]:
        values = merged(CASES[first], CASES[second])
        for version, options in {**VERSIONS, "1.20": {"kube_version": "1.20.2"}}.items():
            objects = helm.objects("market-spread", values, **options)
            wrong += [
                said for o in [*objects, executor_pod(objects)] if (said := invalid(o, version))
            ]
    assert wrong == []


def merged(first: Any, second: Any) -> Any:
    """*first* and *second*, which counts where they differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {**first, **{key: merged(first.get(key), second[key]) for key in second}}
    return second


def test_the_validation_finds_what_is_wrong(helm: Helm) -> None:
    service = one(helm.objects("word-count"), "Service", "-sources")
    service["spec"]["portz"] = service["spec"].pop("ports")
    for version in (NEWEST, OLDEST, "1.20"):
        assert "portz" in (invalid(service, version) or "")


@every_case
def test_every_pod_is_restricted(helm: Helm, values: dict[str, Any]) -> None:
    wrong = {name: unrestricted(spec) for name, spec in pods(helm.objects("word-count", values))}
    assert not any(wrong.values()), wrong


@every_case
def test_names_are_the_releases_own_and_unlike(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.objects("market-spread", values, release="prod")
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]
    assert len(set(names)) == len(names)
    assert {name for kind, name in names if not name.startswith("prod-market-spread")} <= {"worker"}
    assert all(o["metadata"]["namespace"] == "default" for o in objects)
    assert all(o["metadata"]["labels"].items() >= LABELS.items() for o in objects)


def test_a_service_says_the_protocol_of_each_port(helm: Helm) -> None:
    services = [o for o in helm.objects("market-spread") if o["kind"] == "Service"]
    assert len(services) == 4
    assert {p.get("protocol") for s in services for p in s["spec"]["ports"]} == {"TCP"}


@every_case
def test_services_find_their_pods_and_the_ports_they_name(
    helm: Helm, values: dict[str, Any]
) -> None:
    objects = helm.objects("market-spread", values)
    templates = [o["spec"]["template"] for o in objects if "template" in o.get("spec", {})]
    for service in (o for o in objects if o["kind"] == "Service"):
        (template,) = (
            t
            for t in templates
            if t["metadata"]["labels"].items() >= service["spec"]["selector"].items()
        )
        container = template["spec"]["containers"][0]
        known = {p["name"] for p in container["ports"]} | {
            p["containerPort"] for p in container["ports"]
        }
        assert {p["targetPort"] for p in service["spec"]["ports"]} <= known


@every_case
def test_a_change_of_workers_changes_one_config_map_alone(
    helm: Helm, values: dict[str, Any]
) -> None:
    mine = {"existingSecret": "mine"}  # else each rendering has its own
    values = {**values, "token": mine, "sparkSecret": mine}

    def objects(workers: int) -> dict[tuple[str, str], Any]:
        made = helm.objects("word-count", {**values, "workers": workers})
        return {(o["kind"], o["metadata"]["name"]): o for o in made}

    few, many = objects(3), objects(5)
    assert few.keys() == many.keys()
    (changed,) = (few[key] for key in few if few[key] != many[key])
    assert (changed["kind"], changed["metadata"]["name"]) == ("ConfigMap", "word-count-workers")
    assert many["ConfigMap", "word-count-workers"]["data"]["workers"] == "5"


def test_workers_that_follow_the_load_have_bounds_and_the_driver_may_write_their_number(
    helm: Helm,
) -> None:
    def made(workers: Any) -> tuple[dict[str, str], list[str]]:
        objects = helm.objects("word-count", {"workers": workers})
        (rule,) = (r for r in one(objects, "Role")["rules"] if "configmaps" in r["resources"])
        return one(objects, "ConfigMap", "-workers")["data"], rule["verbs"]

    read = ["get", "list", "watch"]
    assert made(3) == ({"workers": "3", "partitions": "8"}, read)
    bounds = {"min": "1", "max": "4", "upAfterSeconds": "30", "downAfterSeconds": "300"}
    bounds["partitions"] = "8"
    assert made({"min": 1, "max": 4}) == ({**bounds, "mode": "scale"}, [*read, "patch"])
    reported = {"min": 1, "max": 4, "mode": "report", "upAfterSeconds": 60}
    assert made(reported) == ({**bounds, "mode": "report", "upAfterSeconds": "60"}, read)


@every_case
@every_chart
def test_what_cannot_be_changed_is_that_of_the_chart_before(
    helm: Helm, chart: str, values: dict[str, Any]
) -> None:
    before = yaml.safe_load(Path(__file__).with_name("immutable.yaml").read_text())
    now = {
        f"{o['kind']} {o['metadata']['name']}": {"selector": o["spec"]["selector"]}
        for o in helm.objects(chart, values, release="r")
        if o["kind"] == "Deployment"
    }
    assert now.items() <= before[chart].items()


def test_only_the_driver_may_do_anything(helm: Helm) -> None:
    objects = helm.objects("market-spread")
    role, binding = one(objects, "Role"), one(objects, "RoleBinding")
    for rule in role["rules"]:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    (config_maps,) = (rule for rule in role["rules"] if "configmaps" in rule["resources"])
    assert config_maps["resourceNames"] == ["market-spread-workers"]
    assert set(config_maps["verbs"]) == {"get", "list", "watch"}
    assert [s["name"] for s in binding["subjects"]] == ["market-spread-driver"]
    tokens = {name: spec["automountServiceAccountToken"] for name, spec in pods(objects)}
    assert [name for name, mounted in tokens.items() if mounted] == ["market-spread-driver"]
    assert not any(o["kind"].startswith("Cluster") for o in objects)


def test_the_driver_has_rights_to_pods_and_one_config_map_and_executors_to_nothing(
    helm: Helm,
) -> None:
    objects = helm.objects("word-count")
    assert [rule["resources"] for rule in one(objects, "Role")["rules"]] == [
        ["pods"],
        ["configmaps"],
    ]
    template = yaml.safe_load(one(objects, "ConfigMap", "-executor")["data"]["pod.yaml"])
    assert template["spec"]["automountServiceAccountToken"] is False
    accounts = [o for o in objects if o["kind"] == "ServiceAccount"]
    assert not any(account["automountServiceAccountToken"] for account in accounts)


def test_the_driver_may_do_with_pods_what_spark_does(helm: Helm) -> None:
    rules = one(helm.objects("word-count"), "Role")["rules"]
    (verbs,) = (rule["verbs"] for rule in rules if "pods" in rule["resources"])
    assert set(verbs) == set(VERBS)
    assert not {"patch", "update"} & set(VERBS)


@pytest.mark.parametrize("existing", ["", "mine"])
def test_sparks_secret_is_not_the_token_and_no_argument(helm: Helm, existing: str) -> None:
    objects = helm.objects("word-count", {"sparkSecret": {"existingSecret": existing}})
    name = existing or "word-count-spark"
    secrets = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "Secret"}
    if not existing:
        assert len(base64.b64decode(secrets[name]["secret"])) >= 32
        others = json.dumps([o for o in objects if o["kind"] != "Secret"])
        assert secrets[name]["secret"] not in others
        assert secrets[name]["secret"] != secrets["word-count-token"]["token"]
    template = yaml.safe_load(one(objects, "ConfigMap", "-executor")["data"]["pod.yaml"])
    specs = dict(pods(objects)) | {"executor": template["spec"]}
    mounts = {
        pod: (volume["secret"]["secretName"], mount["mountPath"])
        for pod, spec in specs.items()
        for volume in spec["volumes"]
        for mount in spec["containers"][0]["volumeMounts"]
        if volume["name"] == mount["name"] == "spark"
    }
    place = (name, "/etc/wallaroo/spark")
    assert mounts == {"word-count-driver": place, "executor": place}
    assert "--spark-secret-file=/etc/wallaroo/spark/secret" in arguments(objects, "-driver")


def test_gateway_and_driver_run_the_same_application(helm: Helm) -> None:
    objects = helm.objects("market-spread", {"args": ["--symbols", "few"]})
    options = []
    for name in ("-gateway", "-driver"):
        args = arguments(objects, name)
        options.append(args[1:4] + args[args.index("--") :])
    assert options[0] == options[1]
    assert options[0] == [
        "/app",
        "--in=orders@0.0.0.0:7010,market-data@0.0.0.0:7011",
        "--out=market-spread-receiver:7002",
        *("--", "--symbols", "few"),
    ]


def test_the_key_of_the_door_is_the_gateways_alone(helm: Helm) -> None:
    objects = helm.objects("word-count", {"tls": {"door": {"secretName": "inner"}}})
    mounted = {
        name: [
            item["path"]
            for volume in spec["volumes"]
            if volume["name"] == "tls-door"
            for item in volume["secret"]["items"]
        ]
        for name, spec in pods(objects)
    }
    assert mounted["word-count-gateway"] == ["tls.crt", "tls.key"]
    assert mounted["word-count-driver"] == ["ca.crt"]
    executor = one(objects, "ConfigMap", "-executor")["data"]["pod.yaml"]
    assert "path: ca.crt" in executor
    assert "tls.key" not in executor


def arguments(objects: list[dict[str, Any]], component: str) -> list[str]:
    container = pod_spec(objects, component.removeprefix("-"))["containers"][0]
    return [str(argument) for argument in container["args"]]


@every_case
def test_gateway_and_driver_take_what_they_are_given(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.objects("market-spread", values)
    for name, command in (("-gateway", gateway), ("-driver", driver)):
        args = arguments(objects, name)[1:]
        command.make_context(name, args)
    spec = pod_spec(objects, "driver")
    for container in (c for c in spec.get("initContainers", []) if c["name"] == "repartition"):
        repartition.make_context("repartition", container["args"][1:])


def test_limits_and_policies_reach_gateway_and_driver(helm: Helm) -> None:
    objects = helm.objects("market-spread", CASES["limits"])
    given = arguments(objects, "-gateway")
    assert {
        "--max-connections=2000000",
        "--idle-timeout=0.5",
        "--frame-timeout=7",
        "--dead-letters-mib=64",
        "--dead-letters-days=7",
    } <= set(given)
    assert given.index("--on-error=stop") < given.index("--on-error=Market Data=drop")
    assert {"--function-timeout=2.5", "--gateway-patience=60", "--accept-lost-journal"} <= set(
        arguments(objects, "-driver")
    )
    assert "--accept-lost-journal" not in arguments(helm.objects("market-spread"), "-driver")


@pytest.mark.parametrize(("mib", "gateway", "executor"), [(16, 1024, 1904), (1, 664, 1184)])
def test_memory_follows_from_the_largest_frame(
    helm: Helm, mib: int, gateway: int, executor: int
) -> None:
    def memory(values: dict[str, Any]) -> tuple[str, str]:
        objects = helm.objects("word-count", {"maxFrameBytes": mib * 2**20, **values})
        (container,) = pod_spec(objects, "gateway")["containers"]
        (overhead,) = (one for one in arguments(objects, "-driver") if "memoryOverhead" in one)
        return container["resources"]["limits"]["memory"], overhead.rpartition("=")[2]

    assert memory({}) == (f"{gateway}Mi", f"{executor}m")
    limits = {"limits": {"memory": "2Gi"}}
    chosen = {"gateway": {"resources": limits}, "executor": {"memoryOverhead": "1g"}}
    assert memory(chosen) == ("2Gi", "1g")
    topics = {"enabled": True, "brokers": ["broker:9092"], "sources": [{"topic": "lines"}]}
    assert memory({"kafka": topics})[0] == f"{gateway + 4120}Mi"
    shows = {"dashboard": {"enabled": True, "tokenSecret": "token"}}
    assert memory(shows)[0] == f"{gateway + 512}Mi"
    assert "--histories" in arguments(helm.objects("word-count", shows), "-gateway")
    assert "--histories" not in arguments(helm.objects("word-count"), "-gateway")
    assert memory({"kafka": {**topics, "maxBatchBytes": 100_000}})[0] == f"{gateway + 392}Mi"


@pytest.mark.parametrize("keep", [False, True])
def test_a_pod_of_a_test_that_has_passed_stays_only_when_it_shall(helm: Helm, keep: bool) -> None:
    made = helm.objects("word-count", {"test": {"keepPod": keep}})
    pod = one(made, "Pod", "-test")
    policies = pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
    assert ("hook-succeeded" in policies, "before-hook-creation" in policies) == (not keep, True)


def test_a_dashboard_is_there_when_it_is_wanted_and_reached_by_whom_the_policy_lets(
    helm: Helm,
) -> None:
    assert "--ui" not in " ".join(arguments(helm.objects("word-count"), "-driver"))
    objects = helm.objects("word-count", CASES["dashboard"])
    assert {"--ui=0.0.0.0:4040", "--ui-token-file=/etc/wallaroo/dashboard/token"} <= set(
        arguments(objects, "-driver")
    )
    names = [a for a in arguments(objects, "-driver") if a.startswith("--ui-name=")]
    assert names[-2:] == [
        "--ui-name=word-count-dashboard.default.svc.cluster.local",
        "--ui-name=dashboard.example",
    ]
    rules = one(objects, "NetworkPolicy", "-driver")["spec"]["ingress"]
    assert [r.get("from") for r in rules if 4040 in [p["port"] for p in r["ports"]]] == [[]]


def test_a_dashboard_without_a_token_is_for_named_peers(helm: Helm) -> None:
    monitors = [{"podSelector": {"matchLabels": {"app": "browser"}}}]
    values = {"dashboard": {"enabled": True}, "networkPolicy": {"monitors": monitors}}
    rules = one(helm.objects("word-count", values), "NetworkPolicy", "-driver")["spec"]["ingress"]
    (peers,) = (r["from"] for r in rules if 4040 in [p["port"] for p in r["ports"]])
    assert monitors[0] in peers


def test_every_file_of_tls_is_mounted_from_its_secret(helm: Helm) -> None:
    objects = helm.objects("market-spread", CASES["TLS everywhere"])
    spec = pod_spec(objects, "gateway")
    (container,) = spec["containers"]
    secrets = {v["name"]: v["secret"] for v in spec["volumes"] if "secret" in v}
    files = {
        f"{mount['mountPath']}/{item['path']}": (secrets[mount["name"]]["secretName"], item["key"])
        for mount in container["volumeMounts"]
        if mount["name"] in secrets
        for item in secrets[mount["name"]]["items"]
    }
    used = [a.partition("=") for a in container["args"] if a.startswith(("--in-tls", "--out-tls"))]
    assert {option: files[file] for option, _, file in used} == {
        "--in-tls-cert": ("gateway-tls", "tls.crt"),
        "--in-tls-key": ("gateway-tls", "tls.key"),
        "--in-tls-client-ca": ("senders", "ca.crt"),
        "--out-tls-ca": ("receivers", "ca.crt"),
        "--out-tls-cert": ("gateway-tls", "tls.crt"),
        "--out-tls-key": ("gateway-tls", "tls.key"),
    }


def test_no_value_is_repeated_where_it_would_restart_the_driver(helm: Helm) -> None:
    objects = helm.objects("word-count", {"workers": 7})
    assert not [argument for argument in arguments(objects, "-driver") if argument[-1] == "7"]


def test_executors_go_where_the_volume_is(helm: Helm) -> None:
    def near(modes: list[str]) -> Any:
        values = {"storage": {"state": {"accessModes": modes}}}
        return executor_pod(helm.objects("word-count", values))["spec"].get("affinity")

    (term,) = near(["ReadWriteOnce"])["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "driver"
    assert near(["ReadWriteMany"]) == {"podAntiAffinity": apart("executor")}


def node_of(component: str) -> Any:
    labels = {"name": "word-count", "instance": "word-count", "component": component}
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {
            "matchLabels": {f"app.kubernetes.io/{name}": value for name, value in labels.items()}
        },
    }


def apart(component: str) -> Any:
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": node_of(component)}
        ]
    }


def test_the_gateway_prefers_another_node_than_the_drivers_unless_values_say_where(
    helm: Helm,
) -> None:
    def affinity(values: dict[str, Any], part: str = "gateway") -> Any:
        return spec_of(helm.objects("word-count", {part: values}), part).get("affinity")

    def with_the_old(part: str) -> Any:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [node_of(part)]}

    # each takes over where its volume is
    same = with_the_old("gateway")
    assert affinity({}) == {"podAffinity": same, "podAntiAffinity": apart("driver")}
    anywhere: dict[str, Any] = {"podAntiAffinity": {}}
    assert affinity({"affinity": anywhere}) == {"podAffinity": same, **anywhere}
    assert affinity({}, "driver") == {"podAffinity": with_the_old("driver")}
    assert affinity({"surge": False}, "driver") is None


def spec_of(objects: list[dict[str, Any]], part: str) -> Any:
    if part == "executor":
        return executor_pod(objects)["spec"]
    return pod_spec(objects, part)


@pytest.mark.parametrize("part", ["gateway", "driver", "executor"])
def test_pods_leave_a_node_that_fails_soon_unless_values_say_when(helm: Helm, part: str) -> None:
    def seconds(*own: dict[str, Any]) -> dict[str, int | None]:
        values = {"tolerationSeconds": 7, part: {"tolerations": [*own]}}
        found = spec_of(helm.objects("word-count", values), part)["tolerations"]
        return {t.get("key", "any"): t.get("tolerationSeconds") for t in found}

    unready, unreachable = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
    assert seconds() == {unready: 7, unreachable: 7}
    assert seconds({"key": "spot", "effect": "NoSchedule"}).keys() == {"spot", unready, unreachable}
    assert seconds({"key": unready, "effect": "NoExecute", "tolerationSeconds": 90}) == {
        unready: 90,
        unreachable: 7,
    }
    assert seconds({"operator": "Exists"}) == {"any": None}


def test_the_check_before_an_upgrade_loads_the_application_as_the_gateway_does(helm: Helm) -> None:
    more = [{"name": "more", "persistentVolumeClaim": {"claimName": "more"}}]
    values = {"args": ["--fast"], "gateway": {"extraVolumes": more}}
    objects = helm.objects("market-spread", values)
    spec = one(objects, "Pod", "-upgrade-check")["spec"]
    (container,) = spec["containers"]
    command, *rest = container["args"]
    context = check.make_context(command, rest)
    assert (context.params["app"], context.params["app_args"][-1]) == ("/app", "--fast")
    assert {*context.params["app_args"]} < {*arguments(objects, "-gateway")}
    assert {"name": "more", "emptyDir": {}} in spec["volumes"], "the gateway has the claim"
    assert spec["activeDeadlineSeconds"] < 300, "which helm waits"


def test_a_shadow_runs_another_image_where_the_log_and_the_state_are(helm: Helm) -> None:
    assert not [o for o in helm.objects("word-count") if o["metadata"]["name"].endswith("-shadow")]
    values = {"args": ["--fast"], "shadow": {"image": {"tag": 2}, "expect": ["Split and Count"]}}
    spec = pod_spec(helm.objects("word-count", values), "shadow")
    (container,) = spec["containers"]
    assert container["image"] == "localhost/word-count:2"
    command, *rest = container["args"]
    assert command == "shadow"
    parameters = shadow.make_context(command, rest).params
    assert (parameters["app"], parameters["app_args"][-1]) == ("/app", "--fast")
    assert parameters["expected"] == ("Split and Count",)
    mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
    for option in ("state_dir", "snapshot"):
        assert mounts[str(parameters[option])]["readOnly"]
    affinity = spec["affinity"]["podAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [_component(one) for one in required] == ["gateway"], "more would have to be one pod"
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert _component(preferred["podAffinityTerm"]) == "driver"
    store = {"storage": {"state": {"uri": "s3a://states/words", "region": "eu-1"}}}
    spec = pod_spec(helm.objects("word-count", {**values, **store}), "shadow")
    assert "preferredDuringSchedulingIgnoredDuringExecution" not in spec["affinity"]["podAffinity"]
    assert {"name": "AWS_REGION", "value": "eu-1"} in spec["containers"][0]["env"]


def test_snapshots_are_jobs_that_have_both_volumes(helm: Helm) -> None:
    def cron_job(**values: object) -> Object:
        objects = helm.objects("word-count", {"snapshots": {"claim": "backups", **values}})
        return next(o for o in objects if o["kind"] == "CronJob")["spec"]  # type: ignore[no-any-return]

    kinds = {o["kind"] for o in helm.objects("word-count")}
    assert "CronJob" not in kinds
    assert cron_job()["suspend"] is True
    timed = cron_job(schedule="0 4 * * *", keep=3)
    assert (timed["suspend"], timed["schedule"]) == (False, "0 4 * * *")
    spec = timed["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    command, *rest = container["args"]
    assert command == "snapshot"
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    options = dict(option.removeprefix("--").split("=") for option in rest)
    assert mounts[options["state-dir"]] == "state"
    assert mounts[options["log-dir"]] == "journal"
    assert options["to"] == "/var/lib/wallaroo/snapshots/word-count/$(JOB)"
    assert options["keep"] == "3"
    claims = [v["persistentVolumeClaim"]["claimName"] for v in spec["volumes"][1:]]
    assert claims == ["word-count-journal", "word-count-state", "backups"]
    required = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [_component(one) for one in required] == ["gateway"]


def test_snapshots_of_state_on_a_store_are_stored_there(helm: Helm) -> None:
    where = {"endpoint": "http://store:9000", "credentialsSecret": "keys"}
    values = {
        "snapshots": {"uri": "s3a://backups/words"},
        "storage": {"state": {"uri": "s3a://states/words", **where}},
    }
    objects = helm.objects("word-count", values)
    (job,) = (o["spec"]["jobTemplate"] for o in objects if o["kind"] == "CronJob")
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert "--state-dir=s3a://states/words" in container["args"]
    assert "--to=s3a://backups/words/word-count/$(JOB)" in container["args"]
    names = [variable["name"] for variable in container["env"]]
    keys = ["AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    assert names == ["JOB", *keys]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["tmp", "journal"]
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp", "journal"]
    assert spec["volumes"][0]["emptyDir"] == {"sizeLimit": "10Gi"}


def _component(term: Object) -> str:
    """The component to whose node a term of pod affinity refers."""
    return str(term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"])


def test_claims_stay_only_when_they_shall(helm: Helm) -> None:
    def policies(keep: bool) -> set[str | None]:
        objects = helm.objects("word-count", {"storage": {"keep": keep}})
        claims = [o for o in objects if o["kind"] == "PersistentVolumeClaim"]
        assert len(claims) == 2
        return {c["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for c in claims}

    assert policies(keep=True) == {"keep"}
    assert policies(keep=False) == {None}


def test_a_receiver_comes_along_only_while_outputs_go_nowhere(helm: Helm) -> None:
    def receivers(outputs: list[str]) -> list[str]:
        made = helm.objects("word-count", {"outputs": outputs})
        return [o["kind"] for o in made if o["metadata"]["name"].endswith("-receiver")]

    assert sorted(receivers([])) == ["ConfigMap", "Deployment", "NetworkPolicy", "Service"]
    assert receivers(["10.1.2.3:7002"]) == []


OWN = {
    "podSelector": {
        "matchLabels": {
            "app.kubernetes.io/name": "word-count",
            "app.kubernetes.io/instance": "word-count",
        }
    }
}
"""The pods of a release, as peers."""


def test_network_policies_open_what_has_to_be_reached_and_nothing_else(helm: Helm) -> None:
    senders = [{"ipBlock": {"cidr": "10.0.0.0/8"}}]
    objects = helm.objects("word-count", {"networkPolicy": {"senders": senders}})
    own = OWN

    def opened(name: str) -> dict[tuple[int, ...], Any]:
        rules = one(objects, "NetworkPolicy", name)["spec"]["ingress"]
        return {tuple(p["port"] for p in r.get("ports", [])): r.get("from") for r in rules}

    assert opened("-gateway") == {(7010,): [*senders, own], (7900, 7901): [own], (7980,): []}
    assert opened("-driver") == {(7078, 7079): [own], (7980,): []}
    assert opened("-executor") == {(): [own]}
    assert opened("-receiver") == {(7002, 7981): [own]}


def test_named_viewers_and_monitors_are_the_only_ones_besides_the_release(helm: Helm) -> None:
    viewers = [{"ipBlock": {"cidr": "10.0.0.0/8"}}]
    monitors = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    values = {
        "events": [{"name": "prices", "port": 7124}],
        "networkPolicy": {"viewers": viewers, "monitors": monitors},
    }
    objects = helm.objects("word-count", values)

    def admitted(name: str, port: int) -> list[Any]:
        rules = one(objects, "NetworkPolicy", name)["spec"]["ingress"]
        (rule,) = (r for r in rules if port in [p["port"] for p in r["ports"]])
        return [peer for peer in rule["from"] if "app.kubernetes.io/name" not in str(peer)]

    assert admitted("-gateway", 7124) == viewers
    assert admitted("-gateway", 7980) == admitted("-driver", 7980) == monitors


def test_an_empty_list_of_peers_is_nobody_but_the_release(helm: Helm) -> None:
    objects = helm.objects("word-count", CASES["network policies for nobody"])
    for name, port in (
        ("-gateway", 7010),
        ("-gateway", 7020),
        ("-gateway", 7980),
        ("-driver", 7980),
    ):
        rules = one(objects, "NetworkPolicy", name)["spec"]["ingress"]
        (peers,) = (r["from"] for r in rules if port in [p["port"] for p in r["ports"]])
        assert peers == [OWN]


def test_connections_of_a_component_are_limited_to_those_that_are_listed(helm: Helm) -> None:
    def policy(values: dict[str, Any], name: str) -> tuple[list[str], Any]:
        spec = one(helm.objects("word-count", values), "NetworkPolicy", name)["spec"]
        return spec["policyTypes"], spec.get("egress")

    always = [
        {"to": [OWN]},
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
    ]
    server = {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"port": 6443}]}
    values = {"networkPolicy": {"egress": {"driver": [server], "executor": []}}}
    assert policy({}, "-gateway") == policy(values, "-gateway") == (["Ingress"], None)
    assert policy(values, "-driver") == (["Ingress", "Egress"], [*always, server])
    assert policy(values, "-executor") == (["Ingress", "Egress"], always)


def test_the_engine_reaches_the_gateway_at_a_second_port(helm: Helm) -> None:
    values = {"networkPolicy": {"enabled": True}, "repartition": True}
    objects = helm.objects("word-count", values)

    def ports(made: list[dict[str, Any]]) -> dict[str, int]:
        return {p["name"]: p["port"] for p in one(made, "Service", "-gateway")["spec"]["ports"]}

    def pod(name: str) -> Any:
        return pod_spec(objects, name.removeprefix("-"))

    assert ports(objects)["chunks"] == 7901
    (gateway,) = pod("-gateway")["containers"]
    assert {"name": "chunks", "containerPort": 7901, "protocol": "TCP"} in gateway["ports"]
    assert "--chunks-port=7901" in gateway["args"]
    inner = [{"port": 7900, "protocol": "TCP"}, {"port": 7901, "protocol": "TCP"}]
    rules = one(objects, "NetworkPolicy", "-gateway")["spec"]["ingress"]
    assert [len(rule["from"]) for rule in rules if rule["ports"] == inner] == [1]


def test_monitors_are_for_clusters_that_know_them(helm: Helm) -> None:
    objects = helm.objects(
        "word-count",
        {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        api_versions=("monitoring.coreos.com/v1",),
    )
    monitor = one(objects, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    scraped = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] == "Service"
        and o["metadata"]["labels"].items() >= wanted
        and any(p["name"] == "health" for p in o["spec"]["ports"])
    }
    assert scraped == {"word-count-gateway", "word-count-driver"}


def test_disruption_budgets_speak_the_clusters_version(helm: Helm) -> None:
    values = {"executor": {"podDisruptionBudget": {"enabled": True}}, "workers": 2}
    assert (
        one(helm.objects("word-count", values), "PodDisruptionBudget")["apiVersion"] == "policy/v1"
    )
    old = helm.objects("word-count", values, kube_version="1.20.2")
    assert one(old, "PodDisruptionBudget")["apiVersion"] == "policy/v1beta1"


def test_a_drain_passes_the_budgets_unless_values_say_that_it_waits(helm: Helm) -> None:
    def specs(**options: Any) -> list[Any]:
        enabled = {"podDisruptionBudget": {"enabled": True, **options}}
        objects = helm.objects("word-count", {"gateway": enabled, "driver": enabled})
        return [o["spec"] for o in objects if o["kind"] == "PodDisruptionBudget"]

    assert [spec["maxUnavailable"] for spec in specs()] == [1, 1]
    assert {spec["unhealthyPodEvictionPolicy"] for spec in specs()} == {"AlwaysAllow"}
    assert [spec["maxUnavailable"] for spec in specs(maxUnavailable=0)] == [0, 0]


def test_the_longest_name_leaves_room_for_all_that_comes_behind_it(helm: Helm) -> None:
    objects = helm.objects("word-count", {"fullnameOverride": "n" * 40})
    for found in objects:
        assert len(found["metadata"]["name"]) <= 63


def test_fractions_may_be_text_as_helm_takes_them_from_its_command_line(helm: Helm) -> None:
    values = {"functionTimeoutSeconds": "0.5", "gateway": {"journalLimitGiB": "0.25"}}
    objects = helm.objects("market-spread", values)

    def arguments(name: str) -> list[str]:
        found = pod_spec(objects, name.removeprefix("-"))["containers"][0]
        return [str(argument) for argument in found["args"]]

    assert "--function-timeout=0.5" in arguments("-driver")
    assert "--function-timeout=0.5" in arguments("-gateway")
    assert "--journal-limit-gib=0.25" in arguments("-gateway")


def test_receiver_and_test_go_to_the_nodes_they_are_given(helm: Helm) -> None:
    chosen = {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "stream", "operator": "Exists"}],
    }
    objects = helm.objects("market-spread", {"receiver": chosen, "test": chosen})
    receiver = one(objects, "Deployment", "-receiver")["spec"]["template"]["spec"]
    for spec in (receiver, one(objects, "Pod", "-test")["spec"]):
        assert {name: spec[name] for name in chosen} == chosen


def test_containers_of_ones_own_stand_beside_the_charts_and_are_restricted(helm: Helm) -> None:
    own = {"name": "mesh", "image": "mesh:1", "securityContext": {"runAsUser": 1337}}
    values = {
        component: {
            "extraInitContainers": [{"name": "fetch", "image": "curl:8"}],
            "extraContainers": [{"name": "proxy", "image": "proxy:2"}, own],
        }
        for component in ("gateway", "driver", "executor")
    }
    objects = helm.objects("word-count", {**values, "repartition": True})
    specs = dict(pods(objects))
    for component in ("gateway", "driver", "executor"):
        spec = specs.get(f"word-count-{component}") or specs[component]
        names = [container["name"] for container in spec["containers"]]
        assert names == [component, "proxy", "mesh"]  # Spark and kubectl take the first
        fetch, *others = spec["initContainers"]
        assert [o["name"] for o in others] == (["repartition"] if component == "driver" else [])
        assert fetch["securityContext"] == spec["containers"][0]["securityContext"]
        assert spec["containers"][1]["securityContext"] == fetch["securityContext"]
        assert spec["containers"][2] == own


def test_executors_ask_for_ephemeral_storage_when_they_shall(helm: Helm) -> None:
    def resources(values: dict[str, Any]) -> Any:
        spec = executor_pod(helm.objects("word-count", {"executor": values}))["spec"]
        return spec["containers"][0].get("resources")

    assert resources({}) is None
    wanted = {"ephemeral-storage": "2Gi"}
    assert resources({"ephemeralStorage": "2Gi"}) == {"requests": wanted, "limits": wanted}


@pytest.mark.parametrize(
    ("values", "takes_over"),
    [
        ({}, True),
        ({"driver": {"surge": False}}, False),
        ({"partitions": 16, "repartition": True}, False),
    ],
)
def test_a_new_driver_starts_beside_the_old_one_unless_values_say_otherwise(
    helm: Helm, values: dict[str, Any], takes_over: bool
) -> None:
    objects = helm.objects("market-spread", values)
    spec = one(objects, "Deployment", "-driver")["spec"]
    assert spec["strategy"]["type"] == ("RollingUpdate" if takes_over else "Recreate")
    options = driver.make_context("driver", arguments(objects, "-driver")[1:]).params
    assert options["take_over"] is takes_over
    # the epoch's end takes 20 s, and Spark's end some
    assert options["successor_patience"] == (80.0 if takes_over else 0.0)
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 120


@pytest.mark.parametrize("surge", [True, False])
def test_a_new_gateway_starts_beside_the_old_one_unless_values_say_otherwise(
    helm: Helm, surge: bool
) -> None:
    objects = helm.objects("market-spread", {"gateway": {"surge": surge}})
    spec = one(objects, "Deployment", "-gateway")["spec"]
    assert spec["strategy"]["type"] == ("RollingUpdate" if surge else "Recreate")
    # with a container that starts again while a new pod already waits, too
    assert "--take-over" in arguments(objects, "-gateway")
