"""Brokers with TLS and passwords: what is trusted works, and what is refused is told in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.gateway.harness import NOWHERE, U32
from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics, problem_of_source, topics, wait_delivered
from tests.kafka.security import PASSWORD, USER, Authority
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.settings import VARIABLE
from wallaroo.connectors.kafka.source import KafkaReader
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.store import Store

WRONG = "not the password"


@pytest.fixture
def app(broker: Broker) -> Iterator[Topics]:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.secure}
    with topics(**texts) as made:
        yield made


def settings(broker: Broker, file: Path, **changed: str) -> dict[str, str]:
    """The environment with *file*, which has the settings for *broker*, some of them *changed*."""
    chosen = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": USER,
        "sasl_password": PASSWORD,
        "ssl_ca_location": str(broker.authority.file),
        **changed,
    }
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in chosen.items()]
    file.write_text("".join(lines))
    return {VARIABLE: str(file)}


def test_trusted_brokers_are_read_and_written(broker: Broker, app: Topics, tmp_path: Path) -> None:
    broker.write(app.texts["source"], b"record")
    environment = settings(broker, tmp_path / "kafka.properties")
    with app.started(environment) as (client, _):
        app.publish(3)
        wait_delivered(client)
        assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
        assert app.accepted() == [b"record"]
    assert broker.values(app.texts["sink"]) == app.published()
    assert PASSWORD not in app.log.read_text()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"sasl_password": WRONG}, ("refuses the credentials", "check the sasl.* settings in")),
        ({"ssl_ca_location": "{other}"}, ("TLS to", "check the ssl.* settings in")),
    ],
    ids=["password", "certificate"],
)
def test_what_is_refused_is_told_without_secrets(
    broker: Broker, app: Topics, tmp_path: Path, wrong: Mapping[str, str], told: tuple[str, str]
) -> None:
    (tmp_path / "other").mkdir()
    other = str(Authority(tmp_path / "other").file)
    file = tmp_path / "kafka.properties"
    changed = {name: value.format(other=other) for name, value in wrong.items()}
    with app.started(settings(broker, file, **changed)) as (client, _):
        problem = problem_of_source(client, told[0])
        wait_until(lambda: told[0] in (client.status().sinks[0].problem or ""), "the sink's")
        for text in (broker.secure, *told, str(file)):
            assert text in problem
    for secret in (PASSWORD, WRONG):
        assert secret not in problem
        assert secret not in app.log.read_text()


@pytest.mark.parametrize("name", ["ssl.ca.location", "settings_file"])
def test_a_file_that_is_missing_is_named_at_the_start(
    broker: Broker, tmp_path: Path, name: str
) -> None:
    file, missing = tmp_path / "kafka.properties", tmp_path / "missing.pem"
    settings(broker, file, ssl_ca_location=str(missing))
    topic = Topic("orders", broker.secure, {}, missing if name == "settings_file" else file)
    source = KafkaSource("lines", U32, bytes, NOWHERE, topic)
    store = Store(tmp_path)
    try:
        with pytest.raises(RuntimeFailure) as raised:
            KafkaReader(ConnectorContext(store.journal, store.outbox), 0, source)
    finally:
        store.close()
    assert str(missing) in str(raised.value)
    assert PASSWORD not in str(raised.value)
    if name == "ssl.ca.location":
        assert f"topic orders at {broker.secure}" in str(raised.value)
        assert str(file) in str(raised.value)
        assert name in str(raised.value)
