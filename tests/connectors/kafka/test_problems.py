"""Errors of Kafka in words: what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from wallaroo.connectors.kafka.problems import in_words
from wallaroo.connectors.kafka.settings import ClientSettings
from wallaroo.connectors.kafka.topic import Topic

SETTINGS = ClientSettings({}, ("hush",), (Path("/etc/kafka/settings"),))


WITHOUT_REASON = {
    *(KafkaError._ALL_BROKERS_DOWN, KafkaError.UNKNOWN_TOPIC_OR_PART),
    *(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED),
    *(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""What says all there is to say."""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            KafkaError._ALL_BROKERS_DOWN,
            "a:1 cannot be reached: no broker answers; check the addresses, and security.protocol",
        ),
        (KafkaError._AUTHENTICATION, "check the sasl.* settings in /etc/kafka/settings"),
        (KafkaError._SSL, "the ssl.* settings in /etc/kafka/settings"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "topic orders, or a partition of it, does not exist"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "a:1: no WRITE on topic orders; grant it to"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "a:1: no WRITE on topic orders; grant it to"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "a:1: no READ on group wallaroo-Shop-1; grant"),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a:1: no WRITE on transactional ID wallaroo-Shop-1; grant it to the application's user",
        ),
        (KafkaError.MSG_SIZE_TOO_LARGE, "raise message.max.bytes of the client"),
        (KafkaError._FENCED, "another gateway writes the outputs of a copy"),
        (KafkaError._BAD_COMPRESSION, "a codec that is not supported"),
        (KafkaError.OFFSET_OUT_OF_RANGE, "a:1 no longer has the next record of topic orders"),
        (KafkaError._MSG_TIMED_OUT, "a:1 took too long to store records of topic orders"),
        (KafkaError.INVALID_TIMESTAMP, "topic orders at a:1: "),
    ],
)
def test_an_error_is_told_with_what_to_do_and_without_secrets(code: int, told: str) -> None:
    error, topic = KafkaError(code, "it is hush"), Topic("orders", "a:1")
    words = in_words(error, topic, SETTINGS, "WRITE", "wallaroo-Shop-1")
    assert told in words
    assert ("it is …" in words) == (code not in WITHOUT_REASON)
    assert "hush" not in words
