"""Outputs that name their topic: in the same transactions, and refused as all others."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import topics, wait_delivered
from tests.kafka.security import PASSWORD, settings
from wallaroo.connectors.kafka.records import KafkaRecord, packed_output
from wallaroo.connectors.kafka.stored import value_of
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.internal_api.client import GatewayClient


def to(topic: str, value: bytes, partition: int | None = None) -> bytes:
    return packed_output(KafkaRecord(value, topic=topic, partition=partition))


def problem_of(client: GatewayClient, text: str) -> str:
    def problem() -> str:
        return client.status().sinks[0].problem or ""

    wait_until(lambda: text in problem(), f"a problem with {text!r}", PATIENCE_S)
    return problem()


@pytest.mark.parametrize("place", ["kafka-sink-before-commit", "kafka-sink-after-commit"])
def test_outputs_are_once_in_the_topics_that_they_name_if_the_gateway_is_killed(
    place: str, broker: Broker
) -> None:
    own, other = broker.topic(), broker.topic()
    some = [b"\0own 1", to(other, b"other 1"), b"\0own 2", to(own, b"own 3"), to(other, b"other 2")]
    with topics(source=broker.topic(), sink=own, brokers=broker.address) as app:
        app.publish_these_and_die(place, *some)
        with app.running() as client:
            app.publish_these(to(other, b"other 3"))
            wait_delivered(client)
            assert client.status().delivered == len(some) + 1
    assert broker.values(own) == [b"own 1", b"own 2", b"own 3"]
    assert broker.values(other) == [b"other 1", b"other 2", b"other 3"]


@pytest.mark.parametrize("transactions", [True, False])
def test_an_output_for_a_topic_or_partition_that_there_is_not_becomes_a_dead_letter(
    transactions: bool, broker: Broker
) -> None:
    own, other, late = broker.topic(), broker.topic(), f"late-{broker.topic()}"
    with (
        topics(
            source=broker.topic(),
            sink=own,
            brokers=broker.address,
            sink_options=f", transactions={transactions}",
        ) as app,
        app.running() as client,
    ):
        app.publish_these(
            to(late, b"too early"), to(other, b"elsewhere", 7), b"\0own", to(late, b"")
        )
        wait_delivered(client)
        letters = {letter.place: letter for letter in client.letters(Choice(), 100)}
        assert letters.keys() == {"output 1", "output 2", "output 4"}
        assert f"topic {late}, or a partition of it, does not exist" in letters["output 1"].error
        assert value_of(letters["output 1"].payload or b"") == b"too early"
        told = f"partition 7 does not exist: topic {other} at {broker.address} has 1 partitions"
        assert told in letters["output 2"].error
        broker.make(late)
        app.publish_these(to(late, b"in time"), to(late, b"elsewhere", 1))
        wait_delivered(client)
        assert len(client.letters(Choice(), 100)) == 4
        assert client.status().sinks[0].problem is None
    assert broker.values(own) == [b"own"]
    assert broker.values(late) == [b"in time"]


def test_a_dead_letter_names_the_missing_topic_if_the_gateway_was_killed(broker: Broker) -> None:
    with topics(source=broker.topic(), sink=broker.topic(), brokers=broker.address) as app:
        app.publish_these_and_die("kafka-sink-after-commit", b"\0before", to("nowhere", b"x"))
        with app.running() as client:
            letters = wait_until(lambda: client.letters(Choice(), 100), "the letters", PATIENCE_S)
            assert [letter.place for letter in letters] == ["output 2"]
            assert "topic nowhere, or a partition of it, does not exist" in letters[0].error


def test_outputs_wait_for_a_topic_and_say_so(broker: Broker) -> None:
    own, late = broker.topic(), f"late-{broker.topic()}"
    with (
        topics(
            source=broker.topic(),
            sink=own,
            brokers=broker.address,
            sink_options=", on_refused='wait'",
        ) as app,
        app.running() as client,
    ):
        waits = to(late, b"waits")
        app.publish_these(b"\0before", waits, b"\0after")
        problem_of(client, f"output 2 ({len(waits)} bytes): topic {late}, or a")
        assert broker.values(own) == [b"before"]
        broker.make(late)
        wait_delivered(client)
    assert broker.values(own) == [b"before", b"after"]
    assert broker.values(late) == [b"waits"]


def test_a_topic_that_an_output_names_is_created_if_told_how(broker: Broker) -> None:
    new = f"new-{broker.topic()}"
    with (
        topics(
            source=broker.topic(),
            sink=broker.topic(),
            brokers=broker.address,
            sink_options=", create=wallaroo.TopicSettings(partitions=3)",
        ) as app,
        app.running() as client,
    ):
        app.publish_these(to(new, b"first", 2))
        wait_delivered(client)
        assert not client.letters(Choice(), 100)
    assert broker.values(new) == [b"first"]


def test_a_topic_that_was_recreated_gets_the_outputs_that_follow(broker: Broker) -> None:
    other = broker.topic()
    with (
        topics(source=broker.topic(), sink=broker.topic(), brokers=broker.address) as app,
        app.running() as client,
    ):
        app.publish_these(to(other, b"before"))
        wait_delivered(client)
        broker.remove(other)
        broker.make(other)
        app.publish_these(to(other, b"after"))
        wait_delivered(client)
        assert not client.letters(Choice(), 100)
        assert broker.values(other) == [b"after"]
        broker.remove(other)
        app.publish_these(to(other, b"too late"))
        wait_delivered(client)
        (letter,) = client.letters(Choice(), 100)
        assert f"topic {other}, or a partition of it, does not exist" in letter.error


@pytest.mark.parametrize("may_describe", [False, True])
def test_a_missing_permission_names_the_topic_of_the_output(
    may_describe: bool, broker: Broker, tmp_path: Path
) -> None:
    own, other, user = broker.topic(), broker.topic(), broker.user(PASSWORD)
    allow = functools.partial(broker.allow, user)
    for operation, topic in (("READ", own), ("WRITE", own), ("DESCRIBE", other)):
        if topic == own or may_describe:
            allow(operation, "TOPIC", topic)
    allow("READ", "GROUP", "wallaroo-topics-", prefix=True)
    allow("WRITE", "TRANSACTIONAL_ID", "wallaroo-topics-", prefix=True)
    file = tmp_path / "user.properties"
    settings(broker.authority, file, sasl_username=user)
    with (
        topics(
            source=broker.topic(),
            sink=own,
            brokers=broker.secure,
            sink_options=f", settings_file={str(file)!r}",
        ) as app,
        app.running() as client,
    ):
        app.publish_these(b"\0before", to(other, b"waits"), b"\0after")
        problem_of(client, f"no WRITE on topic {other}; grant it to the application's user")
        wait_until(lambda: broker.values(own) == [b"before"], "what comes before it", PATIENCE_S)
        allow("WRITE", "TOPIC", other)
        wait_delivered(client)
        assert not client.letters(Choice(), 100)
    assert broker.values(own) == [b"before", b"after"]
    assert broker.values(other) == [b"waits"]
