"""Topics of Kafka in the charts: options of the application, and settings for the gateway alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.harness import CHARTS, Helm, Object, RefusedError, one, pod_spec, pods
from tests.charts.test_objects import CASES
from wallaroo.connectors.kafka.options import kafka_parse_sink_options, kafka_parse_source_options
from wallaroo.connectors.kafka.settings import VARIABLE
from wallaroo.connectors.kafka.topic import is_secret

TOPICS = CASES["topics only"]
CHART = "word-count"
SECRETS = [
    *("sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem"),
    *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"),
    "sasl.oauthbearer.client.credentials.secret",
]
"""Options of librdkafka whose values are secrets."""


def changed(**kafka: Any) -> dict[str, Any]:
    """The values with other ones of `kafka`."""
    return {**TOPICS, "kafka": {**TOPICS["kafka"], **kafka}}


def container(objects: list[Object], component: str) -> Object:
    spec = pod_spec(objects, component)
    found: Object = spec["containers"][0]
    return found


def own_arguments(objects: list[Object], component: str) -> list[str]:
    """What the application gets, of its own."""
    args: list[str] = container(objects, component)["args"]
    return args[args.index("--") + 1 :]


def test_topics_and_brokers_are_options_that_the_application_reads(helm: Helm) -> None:
    objects = helm.objects(CHART, TOPICS)
    args = own_arguments(objects, "gateway")
    assert own_arguments(objects, "driver") == args
    brokers = [("broker-1.example", "9092"), ("broker-2.example", "9092")]
    assert kafka_parse_source_options(args)[:2] == ("orders", brokers)
    assert kafka_parse_source_options(args, "quotes")[:2] == ("quotes", [("::1", "9093")])
    assert kafka_parse_sink_options(args)[:2] == ("totals", brokers)


def test_the_charts_take_the_values_of_the_page(helm: Helm) -> None:
    page = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    objects = helm.objects(CHART, yaml.safe_load(text))
    args = own_arguments(objects, "gateway")
    brokers = [("broker-1.example", "9092"), ("broker-2.example", "9092")]
    assert kafka_parse_source_options(args)[:2] == ("orders", brokers)
    assert kafka_parse_sink_options(args)[:2] == ("totals", brokers)
    settings = one(objects, "ConfigMap", f"{CHART}-kafka")["data"]["settings"].splitlines()
    assert "security.protocol=SASL_SSL" in settings


def test_arguments_of_the_user_come_behind_and_take_precedence(helm: Helm) -> None:
    objects = helm.objects(CHART, {**TOPICS, "args": ["--kafka_source_topic", "others"]})
    args = own_arguments(objects, "gateway")
    assert args[-2:] == ["--kafka_source_topic", "others"]
    assert kafka_parse_source_options(args)[0] == "others"


def test_without_ports_nothing_listens_for_senders_and_no_receiver_comes_along(helm: Helm) -> None:
    objects = helm.objects(CHART, TOPICS)
    names = [o["metadata"]["name"] for o in objects]
    assert not [name for name in names if name.endswith(("-sources", "-receiver"))]
    given = [*container(objects, "gateway")["args"], *container(objects, "driver")["args"]]
    assert not [argument for argument in given if argument.startswith(("--in", "--out"))]
    rules = one(objects, "NetworkPolicy", "-gateway")["spec"]["ingress"]
    assert [[port["port"] for port in rule["ports"]] for rule in rules] == [[7900, 7901], [7980]]


def test_only_gateway_and_check_have_the_settings_and_the_secrets(helm: Helm) -> None:
    objects = helm.objects(CHART, TOPICS)
    mounted = {
        pod: {
            volume["secret"]["secretName"]: volume["secret"].get("defaultMode")
            for volume in spec["volumes"]
            if "secret" in volume
        }
        for pod, spec in pods(objects)
    }
    wanted = {"kafka": 0o440, "brokers-ca": 0o440, "a-client": 0o440}
    for pod in (f"{CHART}-gateway", f"{CHART}-upgrade-check"):
        assert mounted.pop(pod).items() >= wanted.items()
    assert not [name for secrets in mounted.values() for name in secrets if name in wanted]
    settings = f'"{CHART}-kafka"'
    users = [pod for pod, spec in pods(objects) if settings in json.dumps(spec["volumes"])]
    assert users == [f"{CHART}-gateway"]


def test_the_gateway_reads_what_the_values_say(helm: Helm) -> None:
    objects = helm.objects(CHART, TOPICS)
    gateway = container(objects, "gateway")
    (variable,) = (v for v in gateway["env"] if v["name"] == VARIABLE)
    shared, secret = variable["value"].split(":")
    assert secret == "/etc/wallaroo/kafka/settings"
    spec = pod_spec(objects, "gateway")
    (mount,) = (m for m in gateway["volumeMounts"] if shared.startswith(m["mountPath"] + "/"))
    (volume,) = (v for v in spec["volumes"] if v["name"] == mount["name"])
    text = one(objects, "ConfigMap", volume["configMap"]["name"])["data"]["settings"]
    found = dict(line.split("=", 1) for line in text.splitlines())
    files = {m["mountPath"]: m["name"] for m in gateway["volumeMounts"]}
    assert files["/etc/wallaroo/tls/brokers"] == "tls-brokers"
    assert files["/etc/wallaroo/tls/kafka"] == "tls-kafka"
    assert found == {
        "compression.type": "zstd",
        "message.max.bytes": "100000000",
        "security.protocol": "SSL",
        "ssl.ca.location": "/etc/wallaroo/tls/brokers/ca.crt",
        "ssl.certificate.location": "/etc/wallaroo/tls/kafka/tls.crt",
        "ssl.key.location": "/etc/wallaroo/tls/kafka/tls.key",
    }


def test_settings_of_the_user_take_precedence_over_those_for_tls(helm: Helm) -> None:
    objects = helm.objects(CHART, changed(settings={"security.protocol": "SASL_SSL"}))
    text = one(objects, "ConfigMap", f"{CHART}-kafka")["data"]["settings"]
    assert "security.protocol=SASL_SSL" in text.splitlines()
    assert "security.protocol=SSL" not in text.splitlines()


def test_a_secret_may_have_certificates_alone(helm: Helm) -> None:
    objects = helm.objects(CHART, CASES["topics beside ports"])
    gateway = container(objects, "gateway")
    assert [variable["name"] for variable in gateway["env"]] == ["A"]
    assert "/etc/wallaroo/kafka" in [mount["mountPath"] for mount in gateway["volumeMounts"]]


def test_other_settings_restart_the_gateway_and_nothing_else(helm: Helm) -> None:
    mine = {"token": {"existingSecret": "mine"}, "sparkSecret": {"existingSecret": "mine"}}

    def templates(values: dict[str, Any]) -> dict[str, Any]:
        made = helm.objects(CHART, {**values, **mine})
        return {
            o["metadata"]["name"]: o["spec"]["template"]
            for o in made
            if "template" in o.get("spec", {})
        }

    before, after = templates(TOPICS), templates(changed(settings={"linger.ms": 7}))
    assert [name for name in before if before[name] != after[name]] == [f"{CHART}-gateway"]


@pytest.mark.parametrize("chart", CHARTS)
def test_a_release_without_topics_has_nothing_of_them(helm: Helm, chart: str) -> None:
    objects = [o for o in helm.objects(chart) if not o["metadata"]["name"].endswith("-test")]
    assert "kafka" not in json.dumps(objects).lower()


@pytest.mark.parametrize("option", SECRETS)
def test_no_secret_gets_into_a_config_map(helm: Helm, option: str) -> None:
    assert is_secret(option)
    with pytest.raises(RefusedError) as refused:
        helm.objects(CHART, changed(settings={option: "TOPSECRET"}))
    assert f"kafka.settings has {option}, a secret, and a ConfigMap is no place for it" in str(
        refused.value
    )
    assert "TOPSECRET" not in str(refused.value)
