"""Problems with Kafka, described in words, with remedies."""

from __future__ import annotations

from typing import Any

from wallaroo.connectors.kafka.certificates import not_trusted
from wallaroo.connectors.kafka.settings import ClientSettings
from wallaroo.connectors.kafka.topic import Topic

UNKNOWN_TOPIC = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"})
"""Errors of a topic that does not exist."""
_TEXTS = (
    (
        {"_SSL"},
        "TLS to {brokers} fails: {reason}; check the addresses, and the ssl.* settings in {origin}",
    ),
    (
        {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"},
        "{brokers} refuses the credentials: {reason}; check the sasl.* settings in {origin}",
    ),
    (
        {"_ALL_BROKERS_DOWN"},
        # librdkafka's own text has a count, which may be 0 of 4, and not that the protocol is wrong
        "{brokers} cannot be reached: no broker answers; check the addresses, and "
        "security.protocol in {origin}",
    ),
    (
        {"_TRANSPORT", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE"},
        "{brokers} cannot be reached: {reason}",
    ),
    (
        UNKNOWN_TOPIC | {"_UNKNOWN_PARTITION"},
        "{topic}, or a partition of it, does not exist at {brokers}: create it",
    ),
    (
        # brokers let who may write to no topic not even introduce itself as a writer
        {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"},
        "{brokers}: no {access} on {topic}; grant it to the application's user",
    ),
    (
        {"GROUP_AUTHORIZATION_FAILED"},
        "{brokers}: no READ on group {group}; grant it to the application's user",
    ),
    (
        {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED"},
        "{brokers}: no WRITE on transactional ID {group}; grant it to the application's user",
    ),
    (
        {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"},
        "{brokers} no longer has the next record of {topic}: {reason}",
    ),
    (
        {"_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"},
        "{brokers} took too long to store records of {topic}: {reason}",
    ),
    (
        {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG_SIZE"},
        "a record is too large for {topic}: {reason}; raise message.max.bytes of the client, and "
        "max.message.bytes of the topic",
    ),
    (
        {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"},
        "the transaction for {topic} was ended by the brokers, because it took too long or because "
        "another gateway writes the outputs of a copy of this state directory: {reason}",
    ),
    (
        {"_BAD_COMPRESSION", "UNSUPPORTED_COMPRESSION_TYPE", "_NOT_IMPLEMENTED"},
        "records of {topic} are compressed with a codec that is not supported: {reason}",
    ),
)
"""What errors mean, by their names."""


class KafkaProblem(Exception):
    """Why a topic cannot be read or written now; the text says what to do."""


class UnknownTopic(KafkaProblem):
    """A topic does not exist."""


def in_words(
    error: Any, topic: Topic, settings: ClientSettings, access: str = "READ", group: str = ""
) -> str:
    """What *error*, a `KafkaError`, means for *topic*.

    Args:
        error: The error.
        topic: The topic.
        settings: The settings of the client.
        access: The operation on the topic that failed; READ and WRITE imply DESCRIBE.
        group: Name of the client's group, and of its transactional id.
    """
    name, reason = error.name(), settings.redacted(error.str())
    if name == "_TRANSPORT" and "SSL" in reason:
        name = "_SSL"
    if name == "_SSL":
        reason = not_trusted(reason, settings) or reason
    for names, text in _TEXTS:
        if name in names:
            return text.format(
                brokers=topic.brokers,
                topic=topic.title,
                reason=reason,
                origin=settings.origin,
                access=access,
                group=group,
            )
    return f"{topic}: {reason} ({name})"
