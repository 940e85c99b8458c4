"""Word Count between topics of Kafka and ports: topics, credentials and certificates by values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.broker import Broker
from tests.cluster.broker_pod import lines
from tests.cluster.harness import Cluster, CommandFailedError, Release, wait_for
from tests.helpers import ROOT
from tests.kafka.artifacts import NotAvailable

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

APP = """
import wallaroo
import word_count

def with_key(counted):
    return word_count.encoder(counted), counted[0]

def application_setup(args):
    sinks = [
        wallaroo.DefaultKafkaSinkCLIParser(wallaroo.encoder(with_key)),
        wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], word_count.encoder),
    ]
    port = wallaroo.tcp_parse_input_addrs(args)[0]
    sources = {
        "Topic": wallaroo.DefaultKafkaSourceCLIParser(word_count.decoder),
        "Port": wallaroo.TCPSourceConfig(port.host, port.port, word_count.decoder),
    }
    builder = wallaroo.ApplicationBuilder("Word Count")
    for name, source in sources.items():
        builder.new_pipeline(name, source).to_parallel(word_count.split)
        builder.to_state_partition(
            word_count.count_word, word_count.WordTotals, "totals", word_count.first_letter
        )
        builder.to_sinks(sinks)
    return builder.build()
"""
CHART = "word-count"
MESSAGES = 4_000
"""Lines that are written around each change."""
SECONDS = 20.0
"""Over how long."""


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> Iterator[Broker]:
    """A broker whose topics may not be there yet."""
    made = Broker(cluster, "broker", CHART)
    try:
        made.start()
    except NotAvailable as reason:
        pytest.skip(str(reason))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def release(cluster: Cluster, helms: list[str], broker: Broker) -> Release:
    """Word Count with topics, not installed yet; its application takes the place of the image's."""
    program = (ROOT / "apps" / "word_count" / "application.py").read_text()
    app = {
        "extraVolumes": [{"name": "app", "configMap": {"name": "topics-app"}}],
        "extraVolumeMounts": [{"name": "app", "mountPath": "/app"}],
    }
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "topics-app"},
            "data": {"application.py": APP, "word_count.py": program},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "kafka"},
            "stringData": {"settings": f"sasl.password={broker.password}\n"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "kafka-ca"},
            "stringData": {"ca.crt": broker.authority.cert_pem.bytes().decode()},
        },
    )
    values: dict[str, Any] = {
        "partitions": 4,
        "kafka": {
            "enabled": True,
            "brokers": [broker.address],
            "sources": [{"topic": "lines"}],
            "sinks": [{"topic": "counts"}],
            "settings": {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": broker.USER,
            },
            "secretName": "kafka",
        },
        "tls": {"kafka": {"authorities": "kafka-ca"}},
    }
    for pod in ("gateway", "driver", "executor"):
        values |= {f"{pod}.{option}": of for option, of in app.items()}
    return Release(cluster, helms[-1], "topics", CHART, values)


def accepted(release: Release, source: str) -> int:
    """Messages that *source* has accepted; 0 while the gateway does not answer."""
    found = [s["accepted"] for s in release.status()["sources"] if s["name"] == source]
    return int(found[0]) if found else 0


def settled(release: Release, lines_written: int) -> bool:
    """Whether all lines of the topic are counted, and their counts written."""
    status = release.status()
    of_topic = {s["name"]: s["accepted"] for s in status["sources"]}.get("Topic", 0)
    assert of_topic <= lines_written, "a line was accepted twice"
    waiting = (status["backlog"], status["undelivered"])
    return bool(of_topic == lines_written and waiting == (0, 0))


def test_a_topic_that_does_not_exist_is_told_until_it_is_there(
    release: Release, broker: Broker
) -> None:
    release.install()
    broker.make("counts", 3)
    wait_for(
        "a problem with the topic",
        lambda: "topic lines" in (said := release.problems()) and "does not exist" in said,
    )
    broker.make("lines", 2)
    release.wait_until_ready()


def test_each_word_counts_once_while_the_gateway_is_replaced_and_workers_are_added(
    release: Release, broker: Broker
) -> None:
    with broker.writing("lines", 0, MESSAGES, SECONDS):
        wait_for("the first lines", lambda: accepted(release, "Topic"))
        release.delete_pods("gateway")
        release.upgrade("--set", "workers=2")
        wait_for("two workers", lambda: release.runs(2))
    release.wait_until_ready()
    broker.write("lines", MESSAGES, MESSAGES, 1.0)
    wait_for("all counts", lambda: settled(release, 2 * MESSAGES))
    total = Counter(word for line in lines(0, 2 * MESSAGES) for word in line.split())
    due = {word: [f"{word} => {n}\n" for n in range(1, of + 1)] for word, of in total.items()}
    assert broker.read("counts") == due


def test_helm_test_sends_to_the_port_and_looks_at_the_topics(release: Release) -> None:
    said = release.test().split("\n")
    assert {"no topic has a problem", "OK"} <= set(said), "the log of the test's pod"


def test_the_password_is_in_the_secret_and_in_one_file_of_the_gateway(
    release: Release, broker: Broker
) -> None:
    cluster, gateway = release.cluster, release.gateway
    kinds = "pods,deployments,configmaps,events"
    shown = [cluster.kubectl("get", kinds, "-o", "json"), json.dumps(release.status())]
    pods = [pod["metadata"]["name"] for pod in release.pods()]
    shown += [cluster.logs(pod) for pod in pods]
    shown += [cluster.http(gateway, 7980, page) for page in ("status", "metrics")]
    processes = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '"
    shown += [cluster.kubectl("exec", pod, "--", "sh", "-c", processes) for pod in pods]
    assert "wallaroo_kafka_lag_messages" in " ".join(shown)
    assert not [text for text in shown if broker.password in text]
    file = "/etc/wallaroo/kafka/settings"
    look = ("python3", "-c", f"import os; print(oct(os.stat('{file}').st_mode & 0o777))")
    assert cluster.kubectl("exec", gateway, "--", *look).strip() == "0o440"
    with pytest.raises(CommandFailedError, match="No such file"):
        cluster.kubectl("exec", release.driver, "--", "cat", file)


def test_uninstall_leaves_nothing(release: Release) -> None:
    release.uninstall()
    wait_for("everything being gone", lambda: not release.left())
