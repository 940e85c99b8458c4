"""Configurations of sources and sinks that are topics of Kafka."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, overload

from wallaroo.api.addresses import parse_address
from wallaroo.api.class_api import EncoderClass, PayloadDecoder
from wallaroo.api.connectors import AnySink, AnySource
from wallaroo.api.durations import AnyDuration
from wallaroo.api.functions import Encoder, In_contra, Result_co
from wallaroo.api.places import calling_place
from wallaroo.api.secret_files import secret_file
from wallaroo.api.windows import EventTime

Brokers = str | Sequence[tuple[str, str | int]]
"""`HOST:PORT,HOST:PORT`, or pairs of host and port as `kafka_parse_source_options` returns them."""
Settings = Mapping[str, str | int | float | bool]
"""Options of librdkafka by name."""
_DEFAULT_PORT = "9092"


class KafkaSourceConfig(AnySource[Result_co]):
    """A source that reads a topic of Kafka, each record exactly once.

    Takes `(topic, brokers, decoder)`, or `(topic, brokers, log_level, decoder)` as Wallaroo does.
    Requires the extra `wallaroo[kafka]`.

    Args:
        topic: Name of the topic.
        brokers: Addresses of some of the brokers: `"HOST:PORT,HOST:PORT"` or a list of pairs.
        log_level: Ignored; accepted for compatibility.
        decoder: Converts values to messages: a function, decorated or not, or an object with
            `decode`. Its frame layout is ignored.
        start: Where the first start begins to read: `"earliest"`, `"latest"`, or a time (a
            `datetime` with a time zone, or milliseconds since the Unix epoch).
        envelope: Whether the decoder gets a `KafkaRecord` with key, headers and timestamp instead
            of the value alone.
        on_lost: What to do if records were deleted before they were read: `"stop"` reading with an
            error, or `"skip"` them with a warning.
        group: Consumer group to which positions are committed for tools that show the lag; None for
            `wallaroo-` and the name of the pipeline.
        time: From a message to its time, by which partitions, and other sources, are read in the
            order of time where they meet in windows or a join with event time; None for the
            timestamp of the record.
        idle: For how long others wait for it if it has more and cannot be read; a minute if None.
        settings: Options of librdkafka that are not secret.
        settings_file: File with further options of librdkafka, `name=value` in each line; relative
            to the application's directory. `WALLAROO_KAFKA_SETTINGS` names one for all.

    Example:
        >>> KafkaSourceConfig("orders", "broker-1:9092,broker-2", bytes.decode).brokers
        'broker-1:9092,broker-2:9092'
    """

    connector = __package__

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        *,
        start: Literal["earliest", "latest"] | datetime | int = "earliest",
        envelope: bool = False,
        on_lost: Literal["stop", "skip"] = "stop",
        group: str | None = None,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        log_level: str,
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        *,
        start: Literal["earliest", "latest"] | datetime | int = "earliest",
        envelope: bool = False,
        on_lost: Literal["stop", "skip"] = "stop",
        group: str | None = None,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
    ) -> None: ...

    def __init__(self, topic: str, brokers: Brokers, *args: Any, **kwargs: Any) -> None:
        names = ("log_level", "decoder") if len(args) > 1 else ("decoder",)
        self._take(topic, brokers, **_merged("KafkaSourceConfig", names, args, kwargs))
        self.place = calling_place()

    def _take(
        self,
        topic: str,
        brokers: Brokers,
        *,
        decoder: Any,
        log_level: str = "Warn",
        start: str | datetime | int = "earliest",
        envelope: bool = False,
        on_lost: str = "stop",
        group: str | None = None,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.topic = topic
        self.brokers = _brokers(brokers)
        self.log_level = log_level
        self.decoder = decoder
        self.start = start
        self.envelope = envelope
        self.on_lost = on_lost
        self.group = group
        self.time = time
        self.idle = idle
        self.settings = dict(settings or {})
        self.settings_file = secret_file(settings_file)

    _take.__qualname__ = "KafkaSourceConfig"  # as TypeErrors of wrong arguments name it

    def to_tuple(self) -> tuple[str, str, str, str, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("kafka", self.topic, self.brokers, self.log_level, self.decoder)


class KafkaSinkConfig(AnySink[In_contra]):
    """A sink that writes to a topic of Kafka, each output exactly once for committed readers.

    Takes `(topic, brokers, encoder)`, or `(topic, brokers, log_level, max_produce_buffer_ms,
    max_message_size, encoder)` as Wallaroo does. Requires the extra `wallaroo[kafka]`.

    The encoder returns the value of a record, `(value, key)`, `(value, key, partition)`, or a
    `KafkaRecord` with headers and a timestamp; None sends nothing.

    Args:
        topic: Name of the topic.
        brokers: Addresses of some of the brokers: `"HOST:PORT,HOST:PORT"` or a list of pairs.
        log_level: Ignored; accepted for compatibility.
        max_produce_buffer_ms: Milliseconds for which records are gathered before they are sent;
            librdkafka's `linger.ms`. None for librdkafka's default.
        max_message_size: Largest record, in bytes; librdkafka's `message.max.bytes`. None for
            librdkafka's default.
        encoder: Encoder of the outputs.
        transactions: Whether to write in transactions. If False, outputs are visible sooner, and
            some are written twice after the gateway is killed.
        on_refused: What to do with outputs that the topic never takes, as they are too large, for a
            partition that does not exist, or without a key or valid timestamp where it asks for
            one: `"set-aside"` as dead letters, or `"wait"` and try again.
        on_lost: What to do if the brokers have lost outputs that were delivered, because they were
            restored from a backup or failed over: `"stop"` writing with an error, or `"skip"` them
            with a warning.
        settings: Options of librdkafka that are not secret, such as `compression.type`.
        settings_file: File with further options of librdkafka, `name=value` in each line; relative
            to the application's directory. `WALLAROO_KAFKA_SETTINGS` names one for all.

    Example:
        >>> KafkaSinkConfig("totals", [("broker-1", "9092")], str).brokers
        'broker-1:9092'
    """

    connector = __package__

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        *,
        transactions: bool = True,
        on_refused: Literal["set-aside", "wait"] = "set-aside",
        on_lost: Literal["stop", "skip"] = "stop",
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        log_level: str,
        max_produce_buffer_ms: int,
        max_message_size: int,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        *,
        transactions: bool = True,
        on_refused: Literal["set-aside", "wait"] = "set-aside",
        on_lost: Literal["stop", "skip"] = "stop",
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
    ) -> None: ...

    def __init__(self, topic: str, brokers: Brokers, *args: Any, **kwargs: Any) -> None:
        names: tuple[str, ...] = ("encoder",)
        if len(args) > 1:
            names = ("log_level", "max_produce_buffer_ms", "max_message_size", "encoder")
        self._take(topic, brokers, **_merged("KafkaSinkConfig", names, args, kwargs))
        self.place = calling_place()

    def _take(
        self,
        topic: str,
        brokers: Brokers,
        *,
        encoder: Any,
        log_level: str = "Warn",
        max_produce_buffer_ms: int | None = None,
        max_message_size: int | None = None,
        transactions: bool = True,
        on_refused: str = "set-aside",
        on_lost: str = "stop",
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.topic = topic
        self.brokers = _brokers(brokers)
        self.log_level = log_level
        self.max_produce_buffer_ms = max_produce_buffer_ms
        self.max_message_size = max_message_size
        self.encoder = encoder
        self.transactions = transactions
        self.on_refused = on_refused
        self.on_lost = on_lost
        self.settings = dict(settings or {})
        self.settings_file = secret_file(settings_file)

    _take.__qualname__ = "KafkaSinkConfig"  # as TypeErrors of wrong arguments name it

    def to_tuple(self) -> tuple[str, str, str, str, int | None, int | None, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        sizes = self.max_produce_buffer_ms, self.max_message_size
        return ("kafka", self.topic, self.brokers, self.log_level, *sizes, self.encoder)


def _merged(
    what: str, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Positional and keyword arguments together."""
    if len(args) > len(names) or set(names[: len(args)]) & kwargs.keys():
        msg = f"{what}() takes topic, brokers and {', '.join(names)} once each, then keywords"
        raise TypeError(msg)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _brokers(brokers: Brokers) -> str:
    """*brokers* as `HOST:PORT,HOST:PORT`."""
    if isinstance(brokers, str):
        brokers = parsed_brokers(brokers, "brokers")
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in brokers
    )


def parsed_brokers(brokers: str, option: str) -> list[tuple[str, str]]:
    """Host and port of each address in *brokers*, `HOST[:PORT],…`.

    Raises:
        UsageError: An address is invalid; the message names *option*.
    """
    found = []
    for broker in brokers.split(","):
        text = broker.strip()
        has_port = ":" in text.rpartition("]")[2] if text.startswith("[") else ":" in text
        address = parse_address(text if has_port else f"{text}:{_DEFAULT_PORT}", option)
        found.append((address.host, address.port))
    return found
