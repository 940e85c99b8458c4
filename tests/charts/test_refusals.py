"""What the charts refuse, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.harness import HELM, Helm, RefusedError, SdkHelm

AGAINST_THE_SCHEMA: list[tuple[dict[str, Any], str, str]] = [
    ({"workers": 0}, "workers", "greater than or equal to 1|minimum"),
    ({"workers": "two"}, "workers", "integer"),
    ({"workers": {"min": 2}}, "workers", "max"),
    ({"workers": {"min": 0, "max": 2}}, "min", "greater than or equal to 1|minimum"),
    ({"workers": {"min": 1, "max": 2, "mode": "off"}}, "mode", "report"),
    ({"dashboard": {"hosts": "dashboard.example"}}, "hosts", "array"),
    ({"partitions": 1.5}, "partitions", "integer"),
    ({"sources": [{"name": "orders"}]}, "sources", "port"),
    ({"sources": [{"name": "orders", "port": 80}]}, "port", "1024|1,024"),
    ({"outputs": "results.example:7002"}, "outputs", "array"),
    ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy", "IfNotPresent"),
    ({"gateway": {"service": {"type": "ExternalName"}}}, "type", "LoadBalancer"),
    ({"driver": {"terminationGracePeriodSeconds": 90.5}}, "terminationGrace", "integer"),
    ({"storage": {"state": {"accessModes": ["ReadOnlyMany"]}}}, "accessModes", "ReadWriteMany"),
    ({"onError": {"all": "ignore"}}, "onError", "set-aside"),
    ({"onError": {"sources": {"Orders": "retry"}}}, "onError", "set-aside"),
    ({"gateway": {"maxConnections": 0}}, "maxConnections", "1"),
    ({"kafka": {"sources": [{"name": "orders"}]}}, "sources", "topic"),
    ({"kafka": {"brokers": "broker-1:9092"}}, "brokers", "array"),
    ({"kafka": {"settings": {"linger.ms": [5]}}}, "settings", "array|string"),
    ({"test": {"messages": [{"source": "orders"}]}}, "messages", "text|hex|one"),
]
UNKNOWN_KEYS: list[tuple[dict[str, Any], str]] = [
    ({"workers": {"min": 1, "maxi": 2, "max": 2}}, "did you mean workers.max?"),
    ({"wrokers": 2}, "wrokers is not a value of this chart: did you mean workers?"),
    ({"imgae": {"tag": "1"}}, "imgae is not a value of this chart: did you mean image?"),
    ({"driver": {"nodeselector": {}}}, "did you mean driver.nodeSelector?"),
    (
        {"gateway": {"deadLetters": {"limitMib": 9}}},
        "gateway.deadLetters.limitMib is not a value of this chart: did you mean gateway.dead",
    ),
    (
        {"sources": [{"name": "orders", "port": 7010}, {"name": "x", "port": 7011, "prot": 1}]},
        "sources[1].prot is not a value of this chart: did you mean sources[1].port?",
    ),
    (
        {"gateway": {"affinity": {"nope": 1}}},
        "gateway.affinity.nope is not a value of this chart: expected one of nodeAffinity, "
        "podAffinity, podAntiAffinity in gateway.affinity.",
    ),
    (
        {"gateway": {"livenessProbe": {"httpGet": {}}}},
        "gateway.livenessProbe.httpGet is not a value of this chart: expected one of failure",
    ),
    ({"driver": {"cores": 2}}, "driver.cores is not a value of this chart: expected one of aff"),
    ({"tls": {"gateway": {}}}, "tls.gateway is not a value of this chart: expected one of door, "),
    ({"kafka": {"password": "x"}}, "kafka.password is not a value of this chart: expected one of"),
    (
        {"test": {"expect": [{"text": "a"}, {"text": "b", "tekst": "c"}]}},
        "test.expect[1].tekst is not a value of this chart: did you mean test.expect[1].text?",
    ),
]
ARCHIVE_MOUNT = {"name": "archive", "mountPath": "/archive/"}
DEPENDENT: list[tuple[dict[str, Any], str]] = [
    (
        {"driver": {"memory": "4g"}},
        "driver.memory is 4g and driver.resources.limits.memory is 2560Mi: with the 300 MiB that "
        "Python needs beside the heap, the driver would be killed for its memory. Set the limit to "
        "4396Mi or more",
    ),
    (
        {"driver": {"resources": {"limits": {"memory": "1.2G"}}}},
        "driver.memory is 1g and driver.resources.limits.memory is 1.2G",
    ),
    ({"driver": {"memory": "511m"}}, "driver.memory is 511m: Spark does not start with so small"),
    ({"executor": {"memory": "100m"}}, "executor.memory is 100m: Spark does not start with so"),
    (
        {"executor": {"memoryOverhead": "299m"}},
        "executor.memoryOverhead is 299m: Python needs 300 MiB beside the heap",
    ),
    (
        {"gateway": {"journalLimitGiB": 4.5}},
        "gateway.journalLimitGiB is 4.5 and storage.journal.size is 5Gi: the volume would be full "
        "before the journal is, because it also holds 1 GiB of outputs. Set "
        "storage.journal.size=5.5Gi or more",
    ),
    (
        {"storage": {"journal": {"size": "4G"}}},
        "gateway.journalLimitGiB is 3 and storage.journal.size is 4G",
    ),
    (
        {"gateway": {"keepMessagesGiB": 2}},
        "gateway.journalLimitGiB is 3, gateway.keepMessagesGiB is 2 and storage.journal.size is "
        "5Gi",
    ),
    (
        {"gateway": {"archiveDirectory": "/archived/x", "extraVolumeMounts": [ARCHIVE_MOUNT]}},
        "gateway.archiveDirectory is /archived/x, and no volume of gateway.extraVolumeMounts has",
    ),
    (
        {
            "gateway": {
                "archiveDirectory": "/archive/x",
                "extraVolumeMounts": [ARCHIVE_MOUNT],
                "keepMessagesGiB": 0.5,
            }
        },
        "is 5Gi: the volume would be full before the journal is, because it also holds 1 GiB of "
        "outputs and 1 GiB that waits for the archive. Set storage.journal.size=5.5Gi or more",
    ),
    (
        {"gateway": {"keepMessagesDays": "0.5"}},
        "gateway.keepMessagesDays is 0.5 and gateway.keepMessagesGiB is 0: nothing is kept for so "
        "long. Set gateway.keepMessagesGiB",
    ),
    (
        {
            "gateway": {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone"}
                ]
            }
        },
        "gateway.topologySpreadConstraints keeps gateways apart, and a new gateway starts on the",
    ),
    (
        {
            "driver": {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone"}
                ]
            }
        },
        "driver.topologySpreadConstraints keeps drivers apart, and a new driver starts on the node",
    ),
    (
        {
            "driver": {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
                        ]
                    }
                }
            }
        },
        "driver.affinity.podAntiAffinity may keep drivers apart, and a new driver starts on the",
    ),
    (
        {"executor": {"topologySpreadConstraints": [{"maxSkew": 1}]}},
        "executor.topologySpreadConstraints is set, and storage.state.accessModes has no ReadWrite",
    ),
    (
        {"executor": {"nodeSelector": {"disk": "fast"}}, "driver": {"nodeSelector": {"disk": "x"}}},
        "executor.nodeSelector has disk=fast, which driver.nodeSelector does not have, and storage",
    ),
    (
        {"executor": {"nodeSelector": {"disk": "fast"}}, "driver": {"nodeSelector": None}},
        "executor.nodeSelector has disk=fast, which driver.nodeSelector does not have",
    ),
    (
        {"image": {"tag": "1.0", "digest": "sha256:" + "0" * 64}},
        "image.tag and image.digest are both set, and only the digest would count",
    ),
    ({"podSecurityContext": {"runAsUser": 0}}, "podSecurityContext.runAsUser is 0, and the image"),
    ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser is 0, and the image is not"),
]
FITTING: list[dict[str, Any]] = [
    {"driver": {"memory": "4g", "resources": {"limits": {"memory": "4396Mi"}}}},
    {"driver": {"memory": "4g", "resources": {"limits": {"memory": None}}}},
    {"executor": {"memory": "512m", "memoryOverhead": "300m"}, "driver": {"memory": "512m"}},
    {"gateway": {"journalLimitGiB": 10}, "storage": {"journal": {"size": "11Gi"}}},
    {"gateway": {"journalLimitGiB": 10}, "storage": {"journal": {"existingClaim": "mine"}}},
    {"gateway": {"keepMessagesGiB": 1, "keepMessagesDays": 7}},
    {
        "executor": {"nodeSelector": {"disk": "fast"}},
        "driver": {"nodeSelector": {"disk": "fast", "zone": "a"}},
    },
    {
        "executor": {
            "nodeSelector": {"disk": "fast"},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
        },
        "storage": {"state": {"accessModes": ["ReadWriteMany"]}},
    },
    {"podSecurityContext": {"runAsUser": None}},
    {"podSecurityContext": None, "securityContext": None},
]
"""Values just within the bounds of `DEPENDENT`."""
FORMS: list[tuple[dict[str, Any], str]] = [
    (
        {"sources": [{"name": "Orders", "port": 7010}]},
        'sources[0].name is "Orders": expected 15 characters at most, lower case letters',
    ),
    (
        {"sources": [{"name": "a-name-too-long-for-a-port", "port": 7010}]},
        'sources[0].name is "a-name-too-long-for-a-port": expected 15 characters at most',
    ),
    (
        {"outputs": ["results.example"]},
        'outputs[0] is "results.example": expected a host and a port from 1 to 65535, such as',
    ),
    ({"outputs": ["a:7002", "foo:70000"]}, 'outputs[1] is "foo:70000": expected a host and a port'),
    ({"outputs": ["a:0"]}, 'outputs[0] is "a:0": expected a host and a port'),
    ({"outputs": [""]}, 'outputs[0] is "": expected a host and a port'),
    (
        {"image": {"repository": "votes:1.0"}},
        'image.repository is "votes:1.0": expected the name of an image in lower case without',
    ),
    (
        {"image": {"repository": "registry.example/Team/Votes"}},
        'image.repository is "registry.example/Team/Votes": expected the name of an image in lower',
    ),
    ({"image": {"tag": "a b"}}, 'image.tag is "a b": expected the tag of an image, such as 1.2.0.'),
    ({"image": {"digest": "latest"}}, 'image.digest is "latest": expected sha256 and a colon'),
    ({"logLevel": "verbose"}, 'logLevel is "verbose": expected debug, info, warning or error'),
    (
        {"gateway": {"resources": {"requests": {"memory": "1 GB"}}}},
        'gateway.resources.requests.memory is "1 GB": expected an amount as Kubernetes writes it',
    ),
    (
        {"driver": {"resources": {"limits": {"cpuu": 2}}}},
        'driver.resources.limits is "cpuu": expected cpu, memory, ephemeral-storage',
    ),
    ({"executor": {"memory": "1Gi"}}, 'executor.memory is "1Gi": expected an amount of memory as'),
    ({"executor": {"cpuRequest": "half"}}, 'executor.cpuRequest is "half": expected an amount'),
    ({"storage": {"journal": {"size": "five"}}}, 'storage.journal.size is "five": expected an'),
    (
        {"sparkConf": {"shuffle.partitions": 3}},
        'sparkConf is "shuffle.partitions": expected the name of a setting of Spark',
    ),
    (
        {"tls": {"sources": {"secretName": "Gateway TLS"}}},
        'tls.sources.secretName is "Gateway TLS": expected the name of a Secret',
    ),
    (
        {"kafka": {"enabled": True, "brokers": ["broker-1"]}},
        'kafka.brokers[0] is "broker-1": expected a host and a port from 1 to 65535, such as',
    ),
    (
        {"kafka": {"enabled": True, "sinks": [{"topic": "a", "brokers": ["a:9092,b:9092"]}]}},
        'kafka.sinks[0].brokers[0] is "a:9092,b:9092": expected a host and a port',
    ),
    (
        {"kafka": {"enabled": True, "sources": [{"topic": "new orders"}]}},
        'kafka.sources[0].topic is "new orders": expected the name of a topic, with letters',
    ),
    (
        {"kafka": {"enabled": True, "sources": [{"topic": "a", "name": "--kafka"}]}},
        'kafka.sources[0].name is "--kafka": expected what the names of the application\'s options',
    ),
    (
        {"kafka": {"enabled": True, "settings": {"Linger MS": 1}}},
        'kafka.settings is "Linger MS": expected the name of an option of librdkafka',
    ),
    (
        {"kafka": {"enabled": True, "settings": {"client.id": "a\nb=c"}}},
        'kafka.settings[client.id] is "a\\nb=c": expected text without line breaks.',
    ),
    (
        {"kafka": {"enabled": True, "secretName": "My Secret"}},
        'kafka.secretName is "My Secret": expected the name of a Secret',
    ),
    (
        {"test": {"expect": [{"hex": "xyz"}]}},
        'test.expect[0].hex is "xyz": expected hexadecimal digits, spaces and {nonce}.',
    ),
    (
        {"functionTimeoutSeconds": -1},
        'functionTimeoutSeconds is "-1": expected a number, 0 or more',
    ),
    (
        {"driver": {"gatewayPatienceSeconds": 10}},
        'driver.gatewayPatienceSeconds is "10": expected a number, 60 or more, because a gateway',
    ),
    *(
        (
            {component: {"terminationGracePeriodSeconds": 1}},
            f'{component}.terminationGracePeriodSeconds is "1": expected a number, 30 or more, be',
        )
        for component in ("gateway", "driver", "executor")
    ),
    (
        {"storage": {"state": {"storageClass": "Bad_Class"}}},
        'storage.state.storageClass is "Bad_Class": expected the name of an object of Kubernetes',
    ),
    ({"driver": {"priorityClassName": "High"}}, 'driver.priorityClassName is "High": expected the'),
    ({"executor": {"ephemeralStorage": "2 GB"}}, 'executor.ephemeralStorage is "2 GB": expected'),
    ({"prometheusRule": {"runbooks": "docs"}}, 'prometheusRule.runbooks is "docs": expected the'),
    (
        {"gateway": {"deadLetters": {"days": 0}}},
        'gateway.deadLetters.days is "0": expected a number, more than 0.',
    ),
]
IN_A_SENTENCE: list[tuple[dict[str, Any], str]] = [
    ({"workers": 9}, "workers is 9 and partitions is 8: more workers than partitions have nothing"),
    ({"workers": {"min": 1, "max": 9}}, "workers.max is 9 and partitions is 8: more workers than"),
    ({"workers": {"min": 3, "max": 2}}, "workers.min is 3 and workers.max is 2: no number is betw"),
    (
        {"executor": {"podDisruptionBudget": {"enabled": True}}, "workers": {"min": 1, "max": 2}},
        "minAvailable is 1 and workers.min is 1: no node with an executor could be drained.",
    ),
    (
        {"sources": [{"name": "a", "port": 7010}, {"name": "a", "port": 7011}]},
        "Two sources have the name a: each needs a different name.",
    ),
    (
        {"sources": [{"name": "a", "port": 7010}, {"name": "b", "port": 7010}]},
        "The sources a and b have the same port 7010: each needs a different port.",
    ),
    (
        {"sources": [{"name": "a", "port": 7900}]},
        "The source a with port 7900 is in the way of the gateway's own ports",
    ),
    (
        {"sources": [{"name": "a", "port": 7901}]},
        "The source a with port 7901 is in the way of the port at which the gateway",
    ),
    ({"sources": []}, "sources is empty: name the application's sources"),
    ({"image": {"repository": ""}}, "image.repository is empty: name the application's image"),
    ({"driver": None}, "driver is null: leave it out to have its default, or give it a value."),
    ({"fullnameOverride": "n" * 41}, "has 41 characters"),
    (
        {"fullnameOverride": "9lives"},
        '"9lives" cannot be a Service\'s: it must begin with a letter',
    ),
    (
        {"storage": {"state": {"accessModes": ["ReadWriteOncePod"]}}},
        "storage.state.accessModes has ReadWriteOncePod, and driver and executors share the volume",
    ),
    (
        {"snapshots": {"schedule": "0 3 * * *"}},
        "there are no snapshots without snapshots.claim",
    ),
    (
        {"snapshots": {"claim": "backups", "uri": "s3a://backups/words"}},
        "snapshots has both claim and uri: set one of them",
    ),
    (
        {
            "snapshots": {"claim": "backups"},
            "storage": {"journal": {"accessModes": ["ReadWriteOncePod"]}},
        },
        "storage.journal.accessModes has ReadWriteOncePod, and snapshots are made",
    ),
    (
        {"shadow": {"image": {"tag": "2", "digest": "sha256:1"}}},
        "shadow.image.tag and shadow.image.digest are both set",
    ),
    (
        {"shadow": {"image": {"repository": "other"}}},
        "there is no shadow without shadow.image.tag or shadow.image.digest",
    ),
    (
        {
            "shadow": {"image": {"tag": "2"}},
            "storage": {"journal": {"accessModes": ["ReadWriteOncePod"]}},
        },
        "storage.journal.accessModes has ReadWriteOncePod, and a shadow reads the log",
    ),
    (
        {"dashboard": {"enabled": True}},
        "dashboard.enabled is true, and anyone who reaches it could view keys, state and failed",
    ),
    (
        {
            "dashboard": {"enabled": True},
            "networkPolicy": {"enabled": False, "monitors": [{"podSelector": {}}]},
        },
        "set dashboard.tokenSecret to a Secret with a token, or name who may reach it",
    ),
    ({"repartition": True, "stopped": True}, "repartition and stopped are both set"),
    ({"receiver": {"ports": [7981]}}, "receiver.ports has 7981"),
    (
        {"gateway": {"service": {"nodePorts": {"market-data": 30001}}}},
        "gateway.service.nodePorts is set, and gateway.service.type is ClusterIP",
    ),
    (
        {"gateway": {"service": {"type": "NodePort", "nodePorts": {"trades": 30001}}}},
        'nodePorts names the source "trades", and the sources are market-data, orders.',
    ),
    (
        {"gateway": {"service": {"loadBalancerClass": "internal"}}},
        "gateway.service has settings of a load balancer, and its type is ClusterIP",
    ),
    (
        {"gateway": {"service": {"externalTrafficPolicy": "Local"}}},
        "gateway.service.externalTrafficPolicy is set, and gateway.service.type is ClusterIP",
    ),
    (
        {"executor": {"podDisruptionBudget": {"enabled": True, "minAvailable": 2}}, "workers": 2},
        "minAvailable is 2 and workers is 2: no node with an executor could be drained.",
    ),
    (
        {"tls": {"sources": {"clientAuthorities": "senders"}}, "test": {"enabled": False}},
        "without tls.sources.secretName sources speak plain TCP",
    ),
    (
        {"tls": {"sources": {"secretName": "tls", "clientAuthorities": "senders"}}},
        "helm test has no certificate to show: set test.tlsSecretName, or test.enabled=false.",
    ),
    (
        {"tls": {"outputs": {"secretName": "tls"}}, "outputs": ["results.example:7002"]},
        "without tls.outputs.authorities outputs go out by plain TCP",
    ),
    (
        {"tls": {"outputs": {"authorities": "receivers"}}},
        "outputs is empty: the receiver that comes along speaks plain TCP",
    ),
    (
        {"kafka": {"secretName": "kafka"}},
        "kafka.secretName is set, and kafka.enabled is false: set kafka.enabled=true.",
    ),
    (
        {"tls": {"kafka": {"authorities": "ca"}}},
        "tls.kafka.authorities is set, and kafka.enabled is false: set kafka.enabled=true.",
    ),
    (
        {"kafka": {"enabled": True}, "tls": {"kafka": {"secretName": "tls"}}},
        "without tls.kafka.authorities brokers are reached by plain TCP",
    ),
    (
        {"kafka": {"enabled": True, "sinks": [{"topic": "totals"}]}},
        "The topic totals in kafka.sinks has no brokers: set kafka.brokers, for example",
    ),
    (
        {
            "kafka": {
                "enabled": True,
                "brokers": ["broker-1:9092"],
                "sources": [{"topic": "orders"}, {"topic": "quotes"}],
            }
        },
        "The topics orders and quotes become the same options, --kafka_source_topic and",
    ),
    (
        {
            "kafka": {"enabled": True, "secretName": "kafka"},
            "gateway": {"extraEnv": [{"name": "WALLAROO_KAFKA_SETTINGS", "value": "/x"}]},
        },
        "gateway.extraEnv has WALLAROO_KAFKA_SETTINGS, which kafka.settings, kafka.secretName and",
    ),
    (
        {"kafka": {"enabled": True}, "sources": [], "test": {"messages": [], "expect": []}}
        | {"gateway": {"service": {"type": "NodePort", "nodePorts": {"trades": 30001}}}},
        'nodePorts names the source "trades", and sources is empty.',
    ),
    (
        {"kafka": {"enabled": True}, "sources": []},
        'test.messages names the source "market-data", and sources is empty.',
    ),
    (
        {"storage": {"state": {"uri": "s3a://states/votes"}}, "repartition": True},
        "repartition is true, and the state is on an object store (s3a://states/votes)",
    ),
    (
        {"storage": {"state": {"uri": "s3a://states/votes", "existingClaim": "mine"}}},
        "storage.state has both uri and existingClaim: set one of them.",
    ),
    (
        {"storage": {"state": {"endpoint": "https://s3.example"}}},
        "storage.state.endpoint is set, and nothing is on an object store: set storage.state.",
    ),
    (
        {"gateway": {"archiveDirectory": "gs://archive/votes"}},
        'gateway.archiveDirectory is "gs://archive/votes": expected a directory, such as /archive/',
    ),
    (
        {"gateway": {"archiveDirectory": "s3a://archive", "keepMessagesGiB": 0}},
        'gateway.archiveDirectory is "s3a://archive": expected a directory, such as /archive/',
    ),
    (
        {"storage": {"state": {"uri": "s3://states/votes"}}},
        'storage.state.uri is "s3://states/votes": expected a folder of a bucket, such as s3a://',
    ),
    (
        {"storage": {"state": {"uri": "s3a://b0/x", "endpoint": "s3.example:9000"}}},
        'storage.state.endpoint is "s3.example:9000": expected the URL of an object store',
    ),
    (
        {"serviceMonitor": {"enabled": True}},
        "serviceMonitor.enabled is true, and the cluster has no monitoring.coreos.com/v1",
    ),
    (
        {"prometheusRule": {"enabled": True}},
        "prometheusRule.enabled is true, and the cluster has no monitoring.coreos.com/v1",
    ),
    (
        {"test": {"messages": [{"source": "trades", "text": "x"}]}},
        'test.messages names the source "trades", and the sources are orders, market-data.',
    ),
]


@pytest.mark.parametrize(("values", "where", "why"), AGAINST_THE_SCHEMA, ids=lambda v: str(v)[:40])
def test_the_schema_refuses_and_says_where(
    helm: Helm, values: dict[str, Any], where: str, why: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        helm.objects("market-spread", values)
    told = str(refused.value)
    assert "values don't meet the specifications of the schema" in told
    assert where in told
    assert any(word in told for word in why.split("|")), told


@pytest.mark.parametrize(
    ("values", "sentence"),
    [*UNKNOWN_KEYS, *FORMS, *DEPENDENT, *IN_A_SENTENCE],
    ids=lambda v: str(v)[:40],
)
def test_what_a_schema_cannot_say_is_said_in_a_sentence(
    helm: Helm, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        helm.objects("market-spread", values)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("values", FITTING, ids=str)
def test_values_that_just_fit_together_are_taken(helm: Helm, values: dict[str, Any]) -> None:
    assert helm.objects("market-spread", values)


def test_keys_that_the_chart_does_not_interpret_are_taken(helm: Helm) -> None:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    values = {
        "gateway": {"extraEnv": [variable], "podLabels": {"any": "x"}},
        "podSecurityContext": {"supplementalGroups": [7]},
        "global": {"any": 1},
    }
    assert helm.objects("market-spread", values)


def test_the_schema_has_no_patterns_for_helm_to_show() -> None:
    assert "pattern" not in (HELM / "wallaroo/files/values.schema.json").read_text()


def test_all_mistakes_are_told_at_once(helm: Helm) -> None:
    with pytest.raises(RefusedError) as refused:
        helm.objects("market-spread", {"workers": 9, "outputs": [], "sources": []})
    assert "workers is 9" in str(refused.value)
    assert "sources is empty" in str(refused.value)


def test_kubernetes_before_1_20_is_refused(helm: Helm) -> None:
    if isinstance(helm, SdkHelm):
        pytest.skip("the library does not compare a chart's kubeVersion with that of a cluster")
    with pytest.raises(RefusedError, match=r"requires kubeVersion: >=1\.20\.0-0"):
        helm.objects("market-spread", kube_version="1.19.9")
