"""Configurations of sources and sinks that are topics of Kafka."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, overload

from wallaroo.api.addresses import parse_address
from wallaroo.api.class_api import AnyEncoder, PayloadDecoder
from wallaroo.api.connectors import AnyDeadLetters, AnySink, AnySource
from wallaroo.api.durations import AnyDuration, EventTime
from wallaroo.api.functions import In_contra, Result_co
from wallaroo.api.places import calling_place
from wallaroo.api.secret_files import secret_file
from wallaroo.connectors.kafka.topic import TokenFunction, TopicSettings
from wallaroo.errors import UsageError

Brokers = str | Sequence[str | tuple[str, str | int]]
"""`HOST:PORT,HOST:PORT`, or a list of `HOST:PORT`, or of pairs of host and port, as
`kafka_parse_source_options` returns them."""
Settings = Mapping[str, str | int | float | bool]
"""Options of librdkafka by name."""
_DEFAULT_PORT = "9092"
_NO_HOST = re.compile(r"[\s/;]|^[^\[]*:.*:")
"""What is in no address: among them a second colon outside of brackets."""


Topics = str | Sequence[str] | re.Pattern[str]
"""A topic's name, several, or what the names of topics match."""


class KafkaSourceConfig(AnySource[Result_co]):
    """A source that reads a topic of Kafka, or several as one, each record exactly once.

    Takes `(topic, brokers, decoder)`, or `(topic, brokers, log_level, decoder)` as Wallaroo does.
    Requires the extra `wallaroo[kafka]`.

    Args:
        topic: Name of the topic, a list of several that are read as one, or a pattern
            (`re.compile`) that whole names match, also those of topics that appear later.
        brokers: Addresses of some of the brokers: `"HOST:PORT,HOST:PORT"`, or a list of such or of
            pairs.
        log_level: Ignored; accepted for compatibility.
        decoder: Converts values to messages: a function, decorated or not, or an object with
            `decode`. Its frame layout is ignored.
        start: Where the first start begins to read: `"earliest"`, `"latest"`, or a time (a
            `datetime` with a time zone, or milliseconds since the Unix epoch).
        envelope: Whether the decoder gets a `KafkaRecord` with key, headers, timestamp and place
            instead of the value alone.
        on_lost: What to do if records were deleted before they were read: `"stop"` reading with an
            error, or `"skip"` them with a warning.
        group: Consumer group to which positions are committed for tools that show the lag; None for
            `PREFIX-APPLICATION-PIPELINE`.
        prefix: What the name of this group begins with.
        time: From a message to its time, by which partitions, and other sources, are read in the
            order of time where they meet in windows or a join with event time; None for the
            timestamp of the record.
        idle: For how long others wait for it if it has more and cannot be read; a minute if None.
        settings: Options of librdkafka that are not secret.
        settings_file: File with further options of librdkafka, `name=value` in each line; relative
            to the application's directory. `WALLAROO_KAFKA_SETTINGS` names one for all.
        create: How the topic is created if it does not exist; None to wait until it does.
        oauth: A function that returns a token for OAUTHBEARER and when it expires: a `datetime`
            with a time zone, or seconds since the Unix epoch.

    Example:
        >>> KafkaSourceConfig("orders", "broker-1:9092,broker-2", bytes.decode).brokers
        'broker-1:9092,broker-2:9092'
    """

    connector = __package__

    @overload
    def __init__(
        self,
        topic: Topics,
        brokers: Brokers,
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        *,
        start: Literal["earliest", "latest"] | datetime | int = "earliest",
        envelope: bool = False,
        on_lost: Literal["stop", "skip"] = "stop",
        group: str | None = None,
        prefix: str = "wallaroo",
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        create: TopicSettings | None = None,
        oauth: TokenFunction | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        topic: Topics,
        brokers: Brokers,
        log_level: str,
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        **options: Any,
    ) -> None: ...

    def __init__(self, topic: Topics, brokers: Brokers, *args: Any, **kwargs: Any) -> None:
        names = ("log_level", "decoder") if len(args) > 1 else ("decoder",)
        self._take(topic, brokers, **_merged("KafkaSourceConfig", names, args, kwargs))
        self.place = calling_place()

    def _take(
        self,
        topic: Topics,
        brokers: Brokers,
        *,
        decoder: Any,
        log_level: str = "Warn",
        start: str | datetime | int = "earliest",
        envelope: bool = False,
        on_lost: str = "stop",
        group: str | None = None,
        prefix: str = "wallaroo",
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        create: TopicSettings | None = None,
        oauth: TokenFunction | None = None,
    ) -> None:
        self.topic: Any = topic
        self.brokers = _brokers(brokers)
        self.log_level = log_level
        self.decoder = decoder
        self.start = start
        self.envelope = envelope
        self.on_lost = on_lost
        self.group = group
        self.prefix = prefix
        self.time = time
        self.idle = idle
        self.settings = dict(settings or {})
        self.settings_file = secret_file(settings_file)
        self.create = create
        self.oauth = oauth

    _take.__qualname__ = "KafkaSourceConfig"  # as TypeErrors of wrong arguments name it

    def to_tuple(self) -> tuple[str, Topics, str, str, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("kafka", self.topic, self.brokers, self.log_level, self.decoder)


class KafkaSinkConfig(AnySink[In_contra]):
    """A sink that writes to a topic of Kafka, each output exactly once for committed readers.

    Takes `(topic, brokers, encoder)`, or `(topic, brokers, log_level, max_produce_buffer_ms,
    max_message_size, encoder)` as Wallaroo does. Requires the extra `wallaroo[kafka]`.

    The encoder returns the value of a record, `(value, key)`, `(value, key, partition)`, or a
    `KafkaRecord` with headers, a timestamp and perhaps another topic; None sends nothing.

    Args:
        topic: Name of the topic.
        brokers: Addresses of some of the brokers: `"HOST:PORT,HOST:PORT"`, or a list of such or of
            pairs.
        log_level: Ignored; accepted for compatibility.
        max_produce_buffer_ms: Milliseconds for which records are gathered before they are sent;
            librdkafka's `linger.ms`. None for librdkafka's default.
        max_message_size: Largest record, in bytes; librdkafka's `message.max.bytes`. None for
            librdkafka's default.
        encoder: Encoder of the outputs.
        transactions: Whether to write in transactions. If False, outputs are visible sooner, and
            some are written twice after the gateway is killed.
        keep_key: Whether an output for which the encoder returns no key has that of the record that
            it comes from. Outputs of windows, joins and timers come from no single record.
        keep_timestamp: The same for the timestamp; without one, it is the time of writing.
        on_refused: What to do with outputs that a topic never takes, as they are too large, for a
            partition or another topic that does not exist, or without a key or valid timestamp
            where it asks for one: `"set-aside"` as dead letters, or `"wait"` and try again.
        on_lost: What to do if the brokers have lost outputs that were delivered, because they were
            restored from a backup or failed over: `"stop"` writing with an error, or `"skip"` them
            with a warning.
        prefix: What the names of the sink's transactional id and consumer group begin with, before
            the name of the application.
        settings: Options of librdkafka that are not secret, such as `compression.type`.
        settings_file: File with further options of librdkafka, `name=value` in each line; relative
            to the application's directory. `WALLAROO_KAFKA_SETTINGS` names one for all.
        create: How the topic, and those that records name, are created if they do not exist. If it
            is None, the sink waits for its own topic; for others, `on_refused` applies.
        oauth: A function that returns a token for OAUTHBEARER and when it expires: a `datetime`
            with a time zone, or seconds since the Unix epoch.

    Example:
        >>> KafkaSinkConfig("totals", ["broker-1:9092", ("broker-2", 9093)], str.encode).brokers
        'broker-1:9092,broker-2:9093'
    """

    connector = __package__

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        encoder: AnyEncoder[In_contra],
        *,
        transactions: bool = True,
        keep_key: bool = True,
        keep_timestamp: bool = True,
        on_refused: Literal["set-aside", "wait"] = "set-aside",
        on_lost: Literal["stop", "skip"] = "stop",
        prefix: str = "wallaroo",
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        create: TopicSettings | None = None,
        oauth: TokenFunction | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        log_level: str,
        max_produce_buffer_ms: int,
        max_message_size: int,
        encoder: AnyEncoder[In_contra],
        **options: Any,
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
        keep_key: bool = True,
        keep_timestamp: bool = True,
        on_refused: str = "set-aside",
        on_lost: str = "stop",
        prefix: str = "wallaroo",
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        create: TopicSettings | None = None,
        oauth: TokenFunction | None = None,
    ) -> None:
        self.topic = topic
        self.brokers = _brokers(brokers)
        self.log_level = log_level
        self.max_produce_buffer_ms = max_produce_buffer_ms
        self.max_message_size = max_message_size
        self.encoder = encoder
        self.transactions = transactions
        self.keep_key = keep_key
        self.keep_timestamp = keep_timestamp
        self.on_refused = on_refused
        self.on_lost = on_lost
        self.prefix = prefix
        self.settings = dict(settings or {})
        self.settings_file = secret_file(settings_file)
        self.create = create
        self.oauth = oauth

    _take.__qualname__ = "KafkaSinkConfig"  # as TypeErrors of wrong arguments name it

    def to_tuple(self) -> tuple[str, str, str, str, int | None, int | None, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        sizes = self.max_produce_buffer_ms, self.max_message_size
        return ("kafka", self.topic, self.brokers, self.log_level, *sizes, self.encoder)


class KafkaDeadLetters(AnyDeadLetters):
    """A topic of Kafka that gets each dead letter exactly once, for committed readers.

    It is passed to `build_application`, or to `build` of an `ApplicationBuilder`. Requires the
    extra `wallaroo[kafka]`.

    Args:
        topic: Name of the topic.
        brokers: Addresses of some of the brokers: `"HOST:PORT,HOST:PORT"`, or a list of such or of
            pairs.
        keep: Whether `wallaroo dead-letters` and the dashboard also have them.
        on_lost: See `KafkaSinkConfig`, as for the options that follow.
        prefix: What the names of the transactional id and consumer group begin with.
        settings: Options of librdkafka that are not secret.
        settings_file: File with further options of librdkafka.
        create: How the topic is created if it does not exist; None to wait until it does.
        oauth: A function that returns a token for OAUTHBEARER and when it expires.

    Example:
        >>> KafkaDeadLetters("shop-dead-letters", "broker-1:9092").keep
        True
    """

    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        *,
        keep: bool = True,
        on_lost: Literal["stop", "skip"] = "stop",
        prefix: str = "wallaroo",
        settings: Settings | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        create: TopicSettings | None = None,
        oauth: TokenFunction | None = None,
    ) -> None:
        self.keep = keep
        self.sink = KafkaSinkConfig(
            topic,
            brokers,
            _unchanged,
            on_lost=on_lost,
            prefix=prefix,
            settings=settings,
            settings_file=settings_file,
            create=create,
            oauth=oauth,
        )


def _unchanged(letter: Any) -> Any:
    """Stand for the encoder, which the connector has."""
    return letter


def _merged(
    what: str, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Positional and keyword arguments together."""
    if len(args) > len(names) or set(names[: len(args)]) & kwargs.keys():
        msg = f"{what}() takes topic, brokers and {', '.join(names)} once each, then keywords"
        raise TypeError(msg)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _brokers(brokers: Brokers) -> str:
    """*brokers* as `HOST:PORT,HOST:PORT`.

    Raises:
        TypeError: They are something else.
        UsageError: An address is invalid.
    """
    found: list[tuple[str, str]] = []
    several = not isinstance(brokers, str | bytes) and isinstance(brokers, Sequence) and brokers
    given: Sequence[Any] = brokers if several else [brokers]
    for broker in given:
        match broker:
            case str():
                found += parsed_brokers(broker, "brokers")
            case (str(host), str() | int() as port):
                bracketed = f"[{host}]" if ":" in host else host
                found += parsed_brokers(f"{bracketed}:{port}", "brokers")
            case _:
                due = '"HOST:PORT", or a list of such or of pairs of host and port'
                msg = f"brokers is {brokers!r:.100}; expected {due}"
                raise TypeError(msg)
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in found)


def parsed_brokers(brokers: str, option: str) -> list[tuple[str, str]]:
    """Host and port of each address in *brokers*, `HOST[:PORT],…`.

    Raises:
        UsageError: An address is invalid; the message names *option*.
    """
    found = []
    for broker in brokers.split(","):
        text = broker.strip()
        if _NO_HOST.search(text):
            msg = f"{option}: {text!r} is not HOST:PORT; an address of IPv6 is written [::1]:9092"
            raise UsageError(msg)
        has_port = ":" in text.rpartition("]")[2] if text.startswith("[") else ":" in text
        address = parse_address(text if has_port else f"{text}:{_DEFAULT_PORT}", option)
        found.append((address.host, address.port))
    return found
