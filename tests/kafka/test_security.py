"""Brokers with TLS and passwords: what is trusted works, and what is refused is told in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.harness import NOWHERE, U32
from tests.helpers import PATIENCE_S
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics, problem_of_sink, problem_of_source, topics, wait_delivered
from tests.kafka.security import PASSWORD, Authority, settings
from wallaroo.connectors.kafka.resolve import KafkaSource
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


def test_trusted_brokers_are_read_and_written(broker: Broker, app: Topics, tmp_path: Path) -> None:
    broker.write(app.texts["source"], b"record")
    environment = settings(broker.authority, tmp_path / "kafka.properties")
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
        ({"ssl_ca_location": "{other}"}, ("unable to get local issuer", "the ssl.* settings in")),
    ],
    ids=["password", "authority"],
)
def test_what_is_refused_is_told_without_secrets(
    broker: Broker, app: Topics, tmp_path: Path, wrong: Mapping[str, str], told: tuple[str, str]
) -> None:
    (tmp_path / "other").mkdir()
    other = str(Authority(tmp_path / "other").file)
    file = tmp_path / "kafka.properties"
    changed = {name: value.format(other=other) for name, value in wrong.items()}
    with app.started(settings(broker.authority, file, **changed)) as (client, _):
        problem = problem_of_source(client, told[0])
        problem_of_sink(client, told[0])
        for text in (broker.secure, *told, str(file)):
            assert text in problem
    for secret in (PASSWORD, WRONG):
        assert secret not in problem
        assert secret not in app.log.read_text()


def test_a_name_that_the_certificate_lacks_is_told(broker: Broker, tmp_path: Path) -> None:
    brokers = broker.secure.replace("127.0.0.1", "127.1")
    with (
        topics(source=broker.topic(), sink=broker.topic(), brokers=brokers) as app,
        app.started(settings(broker.authority, tmp_path / "kafka.properties")) as (client, _),
    ):
        problem = problem_of_source(client, "mismatch")
    assert f"the certificate of {brokers} is not trusted" in problem
    assert "ssl.ca.location" not in problem


TOKENS = """
import base64, datetime, json, pathlib

def token():
    if pathlib.Path(__file__).with_name("no token").exists():
        raise LookupError("the vault is closed")
    now = datetime.datetime.now(datetime.UTC)
    expires = now + datetime.timedelta(minutes=5)
    claims = {"sub": "shop", "iat": now.timestamp(), "exp": expires.timestamp()}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + ".", \\
        expires
"""


class WithTokens(Topics):
    def describe(self, **texts: Any) -> None:
        super().describe(**texts, source_options=", oauth=token", sink_options=", oauth=token")
        app = self._directory / "app.py"
        app.write_text(TOKENS + app.read_text())


def test_a_function_of_the_application_returns_tokens(broker: Broker, tmp_path: Path) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.secure}
    (closed := tmp_path / "no token").touch()
    app = WithTokens(tmp_path, **texts)
    environment = settings(
        broker.authority, tmp_path / "kafka.properties", sasl_mechanism="OAUTHBEARER"
    )
    broker.write(texts["source"], b"record")
    with app.started(environment) as (client, _):
        assert "oauth= raised LookupError: the vault is closed" in problem_of_source(
            client, "no token"
        )
        closed.unlink()
        app.publish(3)
        wait_delivered(client)
        assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
    assert broker.values(texts["sink"]) == app.published()


@pytest.mark.parametrize("name", ["ssl.ca.location", "settings_file"])
def test_a_file_that_is_missing_is_named_at_the_start(
    broker: Broker, tmp_path: Path, name: str
) -> None:
    file, missing = tmp_path / "kafka.properties", tmp_path / "missing.pem"
    settings(broker.authority, file, ssl_ca_location=str(missing))
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
