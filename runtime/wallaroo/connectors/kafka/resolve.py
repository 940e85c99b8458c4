"""Topics of Kafka in the normal form of an application, and the checks of their configurations."""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.connectors.kafka.records import KafkaRecord, packed_output, unpacked
from wallaroo.connectors.kafka.topic import Topic, is_secret
from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import Endpoint, Sink, Source
from wallaroo.resolution.problems import one_of
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import refusal_reason


@dataclass(frozen=True)
class _OnTopic(Endpoint):
    """What sources and sinks have in common."""

    topic: Topic

    @property
    def where(self) -> str:
        return str(self.topic)

    @property
    def label(self) -> str:
        return f"topic {self.topic.name}"

    def check(self) -> None:
        """Check the extra and, if they are on this machine, the settings, without brokers.

        Raises:
            RuntimeFailure: The extra is not installed, or a setting is invalid.
        """
        file = self.topic.settings_file
        no_file = file is not None and not file.exists()
        if no_file and importlib.util.find_spec("confluent_kafka") is not None:
            return
        from wallaroo.connectors.kafka.client import TopicClient

        try:
            TopicClient(self.topic, threading.Event()).check()
        except RuntimeFailure as error:
            msg = f"{self.topic.place}: {error}"
            raise RuntimeFailure(msg) from error


@dataclass(frozen=True)
class KafkaSource(_OnTopic, Source):
    """A source that reads a topic."""

    connector = __package__
    refuses = True
    knows_times = True
    framing: Framing
    start: str | int = "earliest"
    """`earliest`, `latest`, or milliseconds since the Unix epoch."""
    envelope: bool = False
    """Whether payloads are packed records."""
    skips_lost: bool = False
    """Whether to go on after records that were deleted before they were read."""
    group: str = ""
    """Group for positions; empty for one with the name of the source."""

    def given(self, payload: Any) -> Any:  # noqa: D102
        alone = self.envelope and isinstance(payload, bytes)
        return KafkaRecord(payload) if alone else payload

    def shown(self, payload: Any) -> Any:  # noqa: D102
        packed = isinstance(payload, bytes) and refusal_reason(payload) is None
        return unpacked(payload) if self.envelope and packed else payload


@dataclass(frozen=True)
class KafkaSink(_OnTopic, Sink):
    """A sink that writes to a topic; its outputs are packed records."""

    connector = __package__
    has_records = True
    transactions: bool = True
    """Whether it writes in transactions."""
    sets_aside: bool = True
    """Whether outputs that are refused become dead letters."""
    skips_lost: bool = False
    """Whether to go on if the brokers have lost outputs that were delivered."""

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
    found = [*_problems(config)]
    context.report(*found)
    return KafkaSource(
        context.name,
        context.frames,
        _decoding_records(decode) if config.envelope else decode,
        context.place,
        _topic(config),
        "earliest" if found else _start(config),
        config.envelope,
        config.on_lost == "skip",
        config.group or "",
    )


def sink(config: KafkaSinkConfig[Any], context: SinkContext) -> KafkaSink:
    """The sink that *config* describes."""
    encode = context.encode()
    context.report(*_problems(config))
    if callable(encode):
        encode = _encoding_records(encode)
    return KafkaSink(
        context.name,
        encode,
        context.place,
        _topic(config),
        config.transactions,
        config.on_refused == "set-aside",
        config.on_lost == "skip",
    )


def _decoding_records(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder of packed records, from one of records; it takes records themselves as well."""

    @functools.wraps(decode)
    def decode_record(payload: bytes | KafkaRecord) -> Any:
        return decode(payload if isinstance(payload, KafkaRecord) else unpacked(payload))

    return decode_record


def _encoding_records(encode: Callable[[Any], Any]) -> Callable[[Any], bytes | None]:
    """An encoder of packed records, from one of anything that `record_of` takes."""

    @functools.wraps(encode)
    def encode_record(output: Any) -> bytes | None:
        encoded = encode(output)
        return None if encoded is None else packed_output(encoded)

    return encode_record


def _topic(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Topic:
    """The topic that *config* describes."""
    settings = dict(config.settings)
    if isinstance(config, KafkaSinkConfig):
        if config.max_produce_buffer_ms is not None:
            settings.setdefault("linger.ms", config.max_produce_buffer_ms)
        if config.max_message_size is not None:
            settings.setdefault("message.max.bytes", config.max_message_size)
    return Topic(config.topic, config.brokers, settings, config.settings_file, config.place)


def _problems(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides decoder and encoder."""
    if not config.topic or not isinstance(config.topic, str):
        yield f"topic is {config.topic!r}; expected the name of a topic"
    yield from _problems_of_settings(config.settings)
    yield from one_of("on_lost", config.on_lost, "stop", "skip")
    if isinstance(config, KafkaSinkConfig):
        if not isinstance(config.transactions, bool):
            yield f"transactions is {config.transactions!r}; expected a bool"
        yield from one_of("on_refused", config.on_refused, "set-aside", "wait")
        return
    if not isinstance(config.envelope, bool):
        yield f"envelope is {config.envelope!r}; expected a bool"
    if config.group is not None and (not isinstance(config.group, str) or not config.group):
        yield f"group is {config.group!r}; expected the name of a group, or None"
    start = config.start
    if isinstance(start, datetime):
        if start.tzinfo is None:
            yield f"start is {start!r}, which has no time zone"
    elif start not in {"earliest", "latest"} and (
        isinstance(start, bool) or type(start) is not int or start < 0
    ):
        yield f"start is {start!r}; expected 'earliest', 'latest', a datetime or milliseconds"


def _problems_of_settings(settings: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if not isinstance(name, str):
            yield f"settings has {name!r}; expected the name of an option"
        elif is_secret(name):
            yield f"settings has {name!r}, a secret: write it to a file, and pass settings_file"
        elif not isinstance(value, str | int | float):
            yield f"settings has {value!r} for {name!r}; expected a str, a number or a bool"


def _start(config: KafkaSourceConfig[Any]) -> str | int:
    """Where *config* says that reading begins."""
    start = config.start
    return int(start.timestamp() * 1000) if isinstance(start, datetime) else start
