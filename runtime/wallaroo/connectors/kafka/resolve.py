"""Topics of Kafka in the normal form of an application, and the checks of their configurations."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from time import time
from typing import Any, Self

from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.connectors.kafka.records import (
    KafkaRecord,
    as_read,
    packed_like,
    packed_output,
    unpacked,
    value_and_kept,
)
from wallaroo.connectors.kafka.stored import (
    WHOLE,
    decoding_records,
    decoding_values,
    record_in,
    why_refused,
)
from wallaroo.connectors.kafka.topic import (
    LEGAL_NAME,
    Topic,
    TopicSettings,
    is_legal,
    is_secret,
)
from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import Endpoint, Kept, Sink, Source
from wallaroo.resolution.problems import one_of
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.user_code.callers import time_limited
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import MARK

_AHEAD_MS = 3_600_000
"""How far a timestamp that outputs keep may be ahead of the clock: brokers refuse those that are
further, unless they are configured otherwise (`message.timestamp.after.max.ms`)."""


@dataclass(frozen=True)
class _OnTopic(Endpoint):
    """What sources and sinks have in common."""

    topic: Topic

    @property
    def where(self) -> str:
        return str(self.topic)

    @property
    def label(self) -> str:
        return self.topic.title

    def check(self) -> None:
        """Check the extra and the settings, without brokers.

        Raises:
            RuntimeFailure: The extra is not installed, or a setting is invalid.
        """
        from wallaroo.connectors.kafka.client import TopicClient

        try:
            TopicClient(self.topic, threading.Event()).check()
        except RuntimeFailure as error:
            msg = f"{self.topic.place}: {error}"
            raise RuntimeFailure(msg) from error


@dataclass(frozen=True)
class KafkaSource(_OnTopic, Source):
    """A source that reads a topic, or several."""

    connector = __package__
    has_records = True
    knows_times = True
    tells_end = True
    framing: Framing
    start: str | int = "earliest"
    """`earliest`, `latest`, or milliseconds since the Unix epoch."""
    envelope: bool = False
    """Whether the decoder gets records; their values if not."""
    stores_records: bool = False
    """Whether the journal has whole records; their values alone if not. See `storing_records`."""
    group: str = ""
    """Group for positions; empty for one with the names of application and source."""
    prefix: str = "wallaroo"
    """What the name of this one begins with."""

    def storing_records(self) -> Self:
        """The same, with whole records in the journal, whatever the decoder gets."""
        return replace(self, stores_records=True)

    def problem_beside(self, sink: Sink) -> str | None:  # noqa: D102
        topic = self.topic
        if topic.pattern is None or not isinstance(sink, KafkaSink):
            return None
        if not topic.includes(sink.topic.name) or not topic.shares_brokers(sink.topic):
            return None
        return (
            f"source {self.name!r} reads {topic}, and sink {sink.name!r} writes topic "
            f"{sink.topic.name}, which matches: the application would read its own outputs; use a "
            "pattern that does not match it, or a list of names"
        )

    def apart(self, payload: Any) -> tuple[Any, Kept | None]:  # noqa: D102
        if isinstance(payload, bytes) and payload.startswith(WHOLE):
            value, kept = value_and_kept(payload, len(WHOLE))
            return payload if self.envelope or value.startswith(MARK) else value, kept
        if isinstance(payload, KafkaRecord):
            return payload, (payload.key, payload.timestamp_ms or None)
        return payload, None

    def given(self, payload: Any) -> Any:  # noqa: D102
        if isinstance(payload, KafkaRecord):
            return as_read(payload)
        alone = self.envelope and isinstance(payload, bytes)
        return KafkaRecord(payload) if alone else payload

    def shown(self, payload: Any) -> Any:  # noqa: D102
        if not isinstance(payload, bytes) or why_refused(payload) is not None:
            return payload
        record = record_in(payload)
        return record if self.envelope else record.value or b""


@dataclass(frozen=True)
class KafkaSink(_OnTopic, Sink):
    """A sink that writes to a topic; its outputs are packed records."""

    connector = __package__
    has_records = True
    transactions: bool = True
    """Whether it writes in transactions."""
    sets_aside: bool = True
    """Whether outputs that are refused become dead letters."""
    prefix: str = "wallaroo"
    """What the name of its transactional ID and group begins with."""

    def value(self, output: bytes) -> bytes:  # noqa: D102
        return unpacked(output).value or b""

    def record(self, output: bytes) -> KafkaRecord:  # noqa: D102
        return unpacked(output)


def source(config: KafkaSourceConfig[Any], context: SourceContext) -> KafkaSource:
    """The source that *config* describes."""
    decode = context.decode()
    if config.envelope:
        context.check_takes(
            "a KafkaRecord: write lambda record: decode(record.value), or envelope=False"
        )
    if found := [*_problems(config)]:
        context.report(*found)
        config = KafkaSourceConfig("", config.brokers, config.decoder)  # of valid types
    return KafkaSource(
        context.name,
        context.frames,
        (decoding_records if config.envelope else decoding_values)(decode),
        context.place,
        _topic(config),
        _start(config),
        config.envelope,
        config.envelope,
        config.group or "",
        config.prefix,
        skips_lost=config.on_lost == "skip",
    )


def sink(config: KafkaSinkConfig[Any], context: SinkContext) -> KafkaSink:
    """The sink that *config* describes."""
    encode = context.encode()
    if found := [*_problems(config)]:
        context.report(*found)
        config = KafkaSinkConfig("", config.brokers, config.encoder)  # of valid types
    if callable(encode):
        encode = _encoding_records(encode, key=config.keep_key, timestamp=config.keep_timestamp)
    return KafkaSink(
        context.name,
        encode,
        context.place,
        _topic(config),
        config.transactions,
        config.on_refused == "set-aside",
        config.prefix,
        skips_lost=config.on_lost == "skip",
        keeps=config.keep_key or config.keep_timestamp,
    )


@time_limited
def _encoding_records(
    encode: Callable[[Any], Any], *, key: bool, timestamp: bool
) -> Callable[..., bytes | None]:
    """An encoder of packed records, from one of anything that `record_of` takes.

    Args:
        encode: The encoder.
        key: Whether outputs keep the key of the record that they come from.
        timestamp: Whether they keep its timestamp.
    """

    @functools.wraps(encode)
    def encode_record(output: Any, kept: Kept | None = None) -> bytes | None:
        encoded = encode(output)
        if encoded is None:
            return None
        if kept is None:
            return packed_output(encoded)
        its_key, its_time = kept
        keeps_time = timestamp and its_time is not None and its_time <= time() * 1000 + _AHEAD_MS
        return packed_like(encoded, its_key if key else None, its_time if keeps_time else None)

    return encode_record


def _topic(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Topic:
    """The topic that *config* describes."""
    settings = dict(config.settings)
    if isinstance(config, KafkaSinkConfig):
        if config.max_produce_buffer_ms is not None:
            settings.setdefault("linger.ms", config.max_produce_buffer_ms)
        if config.max_message_size is not None:
            settings.setdefault("message.max.bytes", config.max_message_size)
    topic: Any = config.topic
    pattern = topic if isinstance(topic, re.Pattern) and isinstance(topic.pattern, str) else None
    name, *others = (topic or [""]) if isinstance(topic, list | tuple) else [topic]
    return Topic(
        name if pattern is None else pattern.pattern,
        config.brokers,
        settings,
        config.settings_file,
        config.place,
        config.create,
        config.oauth,
        tuple(others),
        pattern,
    )


def _problems(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides decoder and encoder."""
    yield from _problems_of_topic(config)
    yield from _problems_of_settings(config.settings)
    yield from _problems_of_creation(config.create)
    if config.oauth is not None and not callable(config.oauth):
        yield f"oauth is {config.oauth!r}; expected a function that returns a token and its expiry"
    yield from one_of("on_lost", config.on_lost, "stop", "skip")
    if not isinstance(config.prefix, str) or not config.prefix:
        yield f"prefix is {config.prefix!r}; expected what names of groups are to begin with"
    if isinstance(config, KafkaSinkConfig):
        if not isinstance(config.transactions, bool):
            yield f"transactions is {config.transactions!r}; expected a bool"
        yield from one_of("on_refused", config.on_refused, "set-aside", "wait")
        for name in ("keep_key", "keep_timestamp"):
            if not isinstance(value := getattr(config, name), bool):
                yield f"{name} is {value!r}; expected a bool"
        return
    if not isinstance(config.envelope, bool):
        yield f"envelope is {config.envelope!r}; expected a bool"
    if config.group is not None and (not isinstance(config.group, str) or not config.group):
        yield f"group is {config.group!r}; expected the name of a group, or None"
    start = config.start
    if isinstance(start, datetime):
        if start.tzinfo is None:
            yield f"start is {start!r}, which has no time zone"
    elif start not in ("earliest", "latest") and (
        isinstance(start, bool) or type(start) is not int or start < 0
    ):
        yield f"start is {start!r}; expected 'earliest', 'latest', a datetime or milliseconds"


def _problems_of_topic(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Iterator[str]:
    topic, is_source = config.topic, isinstance(config, KafkaSourceConfig)
    if is_source and isinstance(topic, re.Pattern):
        if not isinstance(topic.pattern, str):
            yield f"topic is {topic!r}; expected a pattern of text, not of bytes"
        if config.create is not None:
            yield "create is given, and topic is a pattern; topics that match it are not created"
        return
    several = is_source and isinstance(topic, list | tuple)
    if several and not topic:
        yield "topic is an empty list; expected at least one name"
    names = topic if several else [topic]
    for number, name in enumerate(names):
        if not isinstance(name, str) or not is_legal(name):
            or_several = "; for several, a list of names or re.compile(…)" if is_source else ""
            yield (f"topic is {name!r}; expected the name of one topic: {LEGAL_NAME}{or_several}")
        elif name in names[:number]:
            yield f"topic has {name!r} twice"


def _problems_of_settings(settings: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if not isinstance(name, str):
            yield f"settings has {name!r}; expected the name of an option"
        elif is_secret(name):
            yield f"settings has {name!r}, a secret: write it to a file, and pass settings_file"
        elif not isinstance(value, str | int | float):
            yield f"settings has {value!r} for {name!r}; expected a str, a number or a bool"


def _problems_of_creation(create: Any) -> Iterator[str]:
    if create is None:
        return
    if not isinstance(create, TopicSettings):
        yield f"create is {create!r}; expected TopicSettings(…), or None"
        return
    for name, most in (("partitions", 2**31 - 1), ("replication", 2**15 - 1)):
        number = getattr(create, name)
        if number is not None and (type(number) is not int or not 0 < number <= most):
            yield f"create has {name} {number!r}; expected an int from 1 to {most}, or None"
    if not isinstance(create.config, Mapping):
        yield f"create has config {create.config!r}; expected a dictionary"
        return
    for name, value in create.config.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            yield f"create has config {name!r}: {value!r}; expected a text or a number by name"


def _start(config: KafkaSourceConfig[Any]) -> str | int:
    """Where *config* says that reading begins."""
    start = config.start
    return int(start.timestamp() * 1000) if isinstance(start, datetime) else start
