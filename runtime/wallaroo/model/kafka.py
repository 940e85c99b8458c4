"""Topics of Kafka in the normal form of an application, and the checks of their configurations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from wallaroo.api.kafka import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.api.places import Place
from wallaroo.model.endpoints import Sink, Source
from wallaroo.wire.framing import Framing
from wallaroo.wire.kafka_records import KafkaRecord, packed_output, unpacked

_SECRETS = ("password", "secret", "key.pem", "oauthbearer.config", "credential")
"""Parts of the names of options that are secrets."""


def is_secret(option: str) -> bool:
    """Whether the value of librdkafka's *option* must not be shown."""
    return any(part in option for part in _SECRETS)


@dataclass(frozen=True)
class Topic:
    """A topic, and how to reach it."""

    name: str
    brokers: str
    """`HOST:PORT`, separated by commas."""
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)
    """Options of librdkafka."""
    settings_file: Path | None = None
    """File with further ones."""
    place: Place | None = field(default=None, compare=False)
    """Where it is configured."""

    def __str__(self) -> str:
        return f"topic {self.name} at {self.brokers}"


@dataclass(frozen=True)
class KafkaSource(Source):
    """A source that reads a topic."""

    framing: Framing
    topic: Topic
    start: str | int = "earliest"
    """`earliest`, `latest`, or milliseconds since the Unix epoch."""
    envelope: bool = False
    """Whether payloads are packed records."""
    skips_lost: bool = False
    """Whether to go on after records that were deleted before they were read."""
    group: str = ""
    """Group for positions; empty for one with the name of the source."""

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.topic)

    @property
    def label(self) -> str:  # noqa: D102
        return f"topic {self.topic.name}"

    def shown(self, payload: Any) -> Any:  # noqa: D102
        return unpacked(payload) if self.envelope and isinstance(payload, bytes) else payload


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A sink that writes to a topic; its outputs are packed records."""

    topic: Topic
    transactions: bool = True
    """Whether it writes in transactions."""

    @property
    def where(self) -> str:  # noqa: D102
        return str(self.topic)

    @property
    def label(self) -> str:  # noqa: D102
        return f"topic {self.topic.name}"

    def value(self, output: bytes) -> bytes:  # noqa: D102
        return unpacked(output).value or b""


def decoding_records(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder of packed records, from one of records; it takes records themselves as well."""

    @functools.wraps(decode)
    def decode_record(payload: bytes | KafkaRecord) -> Any:
        return decode(payload if isinstance(payload, KafkaRecord) else unpacked(payload))

    return decode_record


def encoding_records(encode: Callable[[Any], Any]) -> Callable[[Any], bytes | None]:
    """An encoder of packed records, from one of anything that `record_of` takes."""

    @functools.wraps(encode)
    def encode_record(output: Any) -> bytes | None:
        encoded = encode(output)
        return None if encoded is None else packed_output(encoded)

    return encode_record


def topic_of(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Topic:
    """The topic that *config* describes."""
    settings = dict(config.settings)
    if isinstance(config, KafkaSinkConfig):
        if config.max_produce_buffer_ms is not None:
            settings.setdefault("linger.ms", config.max_produce_buffer_ms)
        if config.max_message_size is not None:
            settings.setdefault("message.max.bytes", config.max_message_size)
    return Topic(config.topic, config.brokers, settings, config.settings_file, config.place)


def problems_of(config: KafkaSourceConfig[Any] | KafkaSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides decoder and encoder."""
    if not config.topic or not isinstance(config.topic, str):
        yield f"topic is {config.topic!r}; expected the name of a topic"
    yield from _problems_of_settings(config.settings)
    if isinstance(config, KafkaSinkConfig):
        if not isinstance(config.transactions, bool):
            yield f"transactions is {config.transactions!r}; expected a bool"
        return
    if not isinstance(config.envelope, bool):
        yield f"envelope is {config.envelope!r}; expected a bool"
    if config.group is not None and (not isinstance(config.group, str) or not config.group):
        yield f"group is {config.group!r}; expected the name of a group, or None"
    if config.on_lost not in {"stop", "skip"}:
        yield f"on_lost is {config.on_lost!r}; expected 'stop' or 'skip'"
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


def start_of(config: KafkaSourceConfig[Any]) -> str | int:
    """Where *config* says that reading begins."""
    start = config.start
    return int(start.timestamp() * 1000) if isinstance(start, datetime) else start
