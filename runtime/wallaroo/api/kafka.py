"""Configurations of sources and sinks that are topics of Kafka, with Wallaroo's options for them.

All options of Wallaroo's Kafka API are accepted. Applications of 0.1 to 0.4 pass what the parsing
functions return to the configurations; later ones use the classes with `CLIParser` in their names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, overload

import wallaroo
from wallaroo.api.addresses import parse_address
from wallaroo.api.class_api import EncoderClass, PayloadDecoder
from wallaroo.api.functions import Encoder, In_contra, Result_co
from wallaroo.api.places import calling_place
from wallaroo.errors import UsageError

Brokers = str | Sequence[tuple[str, str | int]]
"""`HOST:PORT,HOST:PORT`, or pairs of host and port as `kafka_parse_source_options` returns them."""
Settings = Mapping[str, str | int | float | bool]
"""Options of librdkafka by name."""
_DEFAULT_PORT = "9092"
_LOG_LEVELS = ("Fine", "Info", "Warn", "Error")
_MAX_MESSAGE_SIZE = 100_000
"""Wallaroo's default of the option `--kafka_sink_max_message_size`, in bytes."""


class KafkaSourceConfig(Generic[Result_co]):
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
        settings: Options of librdkafka that are no secrets.
        settings_file: File with further options of librdkafka, `name=value` in each line; relative
            to the application's directory. `WALLAROO_KAFKA_SETTINGS` names one for all.

    Example:
        >>> KafkaSourceConfig("orders", "broker-1:9092,broker-2", bytes.decode).brokers
        'broker-1:9092,broker-2:9092'
    """

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        /,
        *,
        start: Literal["earliest", "latest"] | datetime | int = "earliest",
        envelope: bool = False,
        on_lost: Literal["stop", "skip"] = "stop",
        group: str | None = None,
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
        self.settings = dict(settings or {})
        self.settings_file = None if settings_file is None else Path(settings_file).absolute()

    _take.__qualname__ = "KafkaSourceConfig"  # as TypeErrors of wrong arguments name it

    def to_tuple(self) -> tuple[str, str, str, str, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("kafka", self.topic, self.brokers, self.log_level, self.decoder)


class KafkaSinkConfig(Generic[In_contra]):
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
        settings: Options of librdkafka that are no secrets, such as `compression.type`.
        settings_file: File with further options of librdkafka, `name=value` in each line; relative
            to the application's directory. `WALLAROO_KAFKA_SETTINGS` names one for all.

    Example:
        >>> KafkaSinkConfig("totals", [("broker-1", "9092")], str).brokers
        'broker-1:9092'
    """

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        /,
        *,
        transactions: bool = True,
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
        self.settings = dict(settings or {})
        self.settings_file = None if settings_file is None else Path(settings_file).absolute()

    _take.__qualname__ = "KafkaSinkConfig"  # as TypeErrors of wrong arguments name it

    def to_tuple(self) -> tuple[str, str, str, str, int | None, int | None, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        sizes = self.max_produce_buffer_ms, self.max_message_size
        return ("kafka", self.topic, self.brokers, self.log_level, *sizes, self.encoder)


def kafka_parse_source_options(
    args: Sequence[str], name: str = "kafka_source"
) -> tuple[str, list[tuple[str, str]], str]:
    """Return topic, brokers and log level, from `--kafka_source_topic` and `…_brokers`.

    Args:
        args: The arguments of `application_setup`.
        name: What the options begin with.

    Raises:
        UsageError: An option is missing or invalid.

    Example:
        >>> kafka_parse_source_options(
        ...     ["--kafka_source_topic", "orders", "--kafka_source_brokers=a:9093,b"])
        ('orders', [('a', '9093'), ('b', '9092')], 'Warn')
    """
    brokers = _parsed(_required(args, f"--{name}_brokers"), f"--{name}_brokers")
    return _required(args, f"--{name}_topic"), brokers, _log_level(args, name)


def kafka_parse_sink_options(
    args: Sequence[str], name: str = "kafka_sink"
) -> tuple[str, list[tuple[str, str]], str, int, int]:
    """Return topic, brokers, log level, longest gathering (ms) and largest record (bytes).

    Args:
        args: The arguments of `application_setup`.
        name: What the options begin with.

    Raises:
        UsageError: An option is missing or invalid.

    Example:
        >>> kafka_parse_sink_options(["--kafka_sink_topic=x", "--kafka_sink_brokers=a"])
        ('x', [('a', '9092')], 'Warn', 0, 100000)
    """
    brokers = _parsed(_required(args, f"--{name}_brokers"), f"--{name}_brokers")
    gathering = _number(args, f"--{name}_max_produce_buffer_ms", 0)
    largest = _number(args, f"--{name}_max_message_size", _MAX_MESSAGE_SIZE)
    topic = _required(args, f"--{name}_topic")
    return topic, brokers, _log_level(args, name), gathering, largest


class CustomKafkaSourceCLIParser(KafkaSourceConfig[Result_co]):
    """A `KafkaSourceConfig` from the options in *args*, as `kafka_parse_source_options` reads them.

    Args:
        args: The arguments of `application_setup`.
        decoder: Converts values to messages.
        options: Keywords of `KafkaSourceConfig`.
    """

    def __init__(
        self,
        args: Sequence[str],
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        **options: Any,
    ) -> None:
        topic, brokers, level = kafka_parse_source_options(args)
        super().__init__(topic, brokers, level, decoder, **options)


class DefaultKafkaSourceCLIParser(KafkaSourceConfig[Result_co]):
    """A `KafkaSourceConfig` from the options of the command line.

    Args:
        decoder: Converts values to messages.
        name: What the options begin with.
        options: Keywords of `KafkaSourceConfig`.
    """

    def __init__(
        self,
        decoder: Callable[[Any], Result_co | None] | PayloadDecoder[Result_co | None],
        name: str = "kafka_source",
        **options: Any,
    ) -> None:
        topic, brokers, level = kafka_parse_source_options(wallaroo._ARGS, name)  # noqa: SLF001
        super().__init__(topic, brokers, level, decoder, **options)


class CustomKafkaSinkCLIParser(KafkaSinkConfig[In_contra]):
    """A `KafkaSinkConfig` from the options in *args*, as `kafka_parse_sink_options` reads them.

    Args:
        args: The arguments of `application_setup`.
        encoder: Encoder of the outputs.
        options: Keywords of `KafkaSinkConfig`.
    """

    def __init__(
        self,
        args: Sequence[str],
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        **options: Any,
    ) -> None:
        super().__init__(*kafka_parse_sink_options(args), encoder, **options)


class DefaultKafkaSinkCLIParser(KafkaSinkConfig[In_contra]):
    """A `KafkaSinkConfig` from the options of the command line.

    Args:
        encoder: Encoder of the outputs.
        name: What the options begin with.
        options: Keywords of `KafkaSinkConfig`.
    """

    def __init__(
        self,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        name: str = "kafka_sink",
        **options: Any,
    ) -> None:
        parsed = kafka_parse_sink_options(wallaroo._ARGS, name)  # noqa: SLF001
        super().__init__(*parsed, encoder, **options)


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
        brokers = _parsed(brokers, "brokers")
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in brokers
    )


def _parsed(brokers: str, option: str) -> list[tuple[str, str]]:
    found = []
    for broker in brokers.split(","):
        text = broker.strip()
        has_port = ":" in text.rpartition("]")[2] if text.startswith("[") else ":" in text
        address = parse_address(text if has_port else f"{text}:{_DEFAULT_PORT}", option)
        found.append((address.host, address.port))
    return found


def _required(args: Sequence[str], option: str) -> str:
    if not (value := _value(args, option)):
        msg = f"{option} is missing: the application requires it"
        raise UsageError(msg)
    return value


def _value(args: Sequence[str], option: str) -> str | None:
    """The value of the last *option* in *args*; None if there is none."""
    found = None
    for index, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if name == option:
            found = value if equals else "".join(args[index + 1 : index + 2])
    return found


def _number(args: Sequence[str], option: str, default: int) -> int:
    value = _value(args, option)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()):
        msg = f"{option}: {value!r} is not a number"
        raise UsageError(msg)
    return int(value)


def _log_level(args: Sequence[str], name: str) -> str:
    option = f"--{name}_log_level"
    level = _value(args, option) or "Warn"
    if level not in _LOG_LEVELS:
        msg = f"{option}: {level!r} is not one of {', '.join(_LOG_LEVELS)}"
        raise UsageError(msg)
    return level
