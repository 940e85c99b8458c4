"""Options of the command line for topics of Kafka, with Wallaroo's names.

Applications of 0.1 to 0.4 pass what the parsing functions return to the configurations; later ones
use the classes with `CLIParser` in their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wallaroo.api import arguments
from wallaroo.api.addresses import last_value
from wallaroo.api.class_api import AnyEncoder, PayloadDecoder
from wallaroo.api.functions import In_contra, Result_co
from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig, parsed_brokers
from wallaroo.errors import UsageError

_LOG_LEVELS = ("Fine", "Info", "Warn", "Error")
_MAX_MESSAGE_SIZE = 100_000
"""Wallaroo's default of the option `--kafka_sink_max_message_size`, in bytes."""


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
    brokers = parsed_brokers(_required(args, f"--{name}_brokers"), f"--{name}_brokers")
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
    brokers = parsed_brokers(_required(args, f"--{name}_brokers"), f"--{name}_brokers")
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
        topic, brokers, level = kafka_parse_source_options(arguments.ARGS, name)
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
        encoder: AnyEncoder[In_contra],
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
        encoder: AnyEncoder[In_contra],
        name: str = "kafka_sink",
        **options: Any,
    ) -> None:
        parsed = kafka_parse_sink_options(arguments.ARGS, name)
        super().__init__(*parsed, encoder, **options)


def _required(args: Sequence[str], option: str) -> str:
    if not (value := last_value(args, option)):
        msg = f"{option} is missing: the application requires it"
        raise UsageError(msg)
    return value


def _number(args: Sequence[str], option: str, default: int) -> int:
    value = last_value(args, option)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()):
        msg = f"{option}: {value!r} is not a number"
        raise UsageError(msg)
    return int(value)


def _log_level(args: Sequence[str], name: str) -> str:
    option = f"--{name}_log_level"
    level = last_value(args, option) or "Warn"
    if level not in _LOG_LEVELS:
        msg = f"{option}: {level!r} is not one of {', '.join(_LOG_LEVELS)}"
        raise UsageError(msg)
    return level
