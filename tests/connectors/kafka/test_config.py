"""Topics of Kafka in all forms of the API, and what an application makes of their records."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from wallaroo.connectors.kafka.resolve import KafkaSink, KafkaSource
from wallaroo.errors import ApplicationError, UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

OPTIONS = [
    *("--kafka_source_topic", "in", "--kafka_source_brokers", "a:1,b", "--kafka_sink_topic", "out"),
    *("--kafka_sink_brokers", "c:2", "--kafka_sink_max_message_size=5000"),
]
APPS = {
    "the first": """
    source = wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), Decoder())
    sink = wallaroo.KafkaSinkConfig(*wallaroo.kafka_parse_sink_options(args), Encoder())
    ab = wallaroo.ApplicationBuilder("app")
    ab.new_pipeline("p", source).to_sink(sink)
    return ab.build()
""",
    "the second": """
    ab = wallaroo.ApplicationBuilder("app")
    ab.new_pipeline("p", wallaroo.DefaultKafkaSourceCLIParser(decode))
    ab.to_sink(wallaroo.DefaultKafkaSinkCLIParser(encode))
    return ab.build()
""",
    "the third": """
    read = wallaroo.source("p", wallaroo.CustomKafkaSourceCLIParser(args, decode))
    sink = wallaroo.CustomKafkaSinkCLIParser(args, encode)
    return wallaroo.build_application("app", read.to_sink(sink))
""",
}
HEAD = """
import wallaroo

class Decoder:
    def header_length(self):
        return 4

    def payload_length(self, header):
        return 0

    def decode(self, payload):
        return payload.decode()

class Encoder:
    def encode(self, text):
        return text.upper(), text[:1]

@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()

@wallaroo.encoder
def encode(text):
    return text.upper(), text[:1], None

def application_setup(args):"""


@pytest.mark.parametrize("generation", APPS)
def test_each_generation_of_the_api_reads_and_writes_topics(
    generation: str, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(HEAD + APPS[generation])
    application = ApplicationRef(str(app), tuple(OPTIONS)).load()
    (source,), (sink,) = application.sources, application.sinks
    assert isinstance(source, KafkaSource)
    assert isinstance(sink, KafkaSink)
    assert str(source.topic) == "topic in at a:1,b:9092"
    assert str(sink.topic) == "topic out at c:2"
    assert sink.topic.settings == {"linger.ms": 0, "message.max.bytes": 5000}
    assert simulate(application, [("p", b"nut")]).outputs == [b"NUT"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "--kafka_source_brokers is missing"),
        (["--kafka_source_brokers", "a:b"], "'a:b' is not an address"),
        (["--kafka_source_brokers", "a"], "--kafka_source_topic is missing"),
        ([*OPTIONS, "--kafka_source_log_level=Loud"], "'Loud' is not one of Fine"),
    ],
)
def test_a_mistake_in_the_options_is_told(args: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        wallaroo.kafka_parse_source_options(args)


def resolved(sink: Any = None, **source: Any) -> Any:
    config = wallaroo.KafkaSourceConfig("t", "a", bytes.decode, **source)
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", config)
    builder.to_sink(sink or wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str)))
    return resolve(builder.build())


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"start": "begin"}, "start is 'begin'; expected 'earliest'"),
        ({"start": datetime(2026, 1, 1)}, "has no time zone"),
        ({"on_lost": "ignore"}, "on_lost is 'ignore'"),
        ({"envelope": "no"}, "envelope is 'no'; expected a bool"),
        ({"group": ""}, "group is ''; expected the name of a group, or None"),
        ({"settings": {1: "x"}}, "settings has 1; expected the name of an option"),
        ({"settings": {"a": None}}, "settings has None for 'a'; expected a str, a number or a"),
        ({"settings": {"sasl.password": "x"}}, "'sasl.password', a secret: write it to a file"),
    ],
)
def test_a_mistake_in_a_configuration_is_told_with_its_line(
    source: dict[str, Any], told: str
) -> None:
    with pytest.raises(ApplicationError, match=told) as raised:
        resolved(**source)
    assert f"{Path(__file__).name}:" in str(raised.value)


def test_transactions_are_on_or_off() -> None:
    off: Any = "no"
    sink = wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str), transactions=off)
    with pytest.raises(ApplicationError, match="transactions is 'no'; expected a bool"):
        resolved(sink)


@pytest.mark.parametrize("decoder", [bytes, bytearray])
def test_a_class_of_bytes_is_a_decoder_that_leaves_the_value_as_it_is(decoder: Any) -> None:
    config = wallaroo.KafkaSourceConfig("t", "a", decoder)

    @wallaroo.computation(name="seen")
    def seen(value: Any) -> str:
        return f"{type(value).__name__} {value!r}"

    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", config).to(seen)
    builder.to_sink(wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str)))
    (output,) = simulate(builder.build(), [("p", b"\xff")]).outputs
    assert output.decode() == f"{decoder.__name__} {decoder(bytes([255]))!r}"


def test_a_simulation_takes_values_for_records_and_has_the_records_that_a_topic_gets() -> None:
    def encode(record: wallaroo.KafkaRecord) -> wallaroo.KafkaRecord:
        return wallaroo.KafkaRecord(record.value or None, b"k", (("h", b"1"),), 7)

    config = wallaroo.KafkaSourceConfig("t", "a", lambda record: record, envelope=True)
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", config)
    builder.to_sink(wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(encode)))
    sent = [("p", b"v"), ("p", wallaroo.KafkaRecord(b""))]
    result = simulate(builder.build(), sent)
    assert result.outputs == [b"v", b""]
    assert result.records == {
        "p": [wallaroo.KafkaRecord(value, b"k", (("h", b"1"),), 7) for value in (b"v", None)]
    }


def test_a_start_can_be_a_time() -> None:
    (source,) = resolved(start=datetime(2026, 1, 1, tzinfo=UTC)).sources
    assert source.start == 1767225600000


def test_an_envelope_has_all_of_a_record_and_an_output_can_be_one() -> None:
    def decode(record: wallaroo.KafkaRecord) -> wallaroo.KafkaRecord:
        return record

    def encode(record: wallaroo.KafkaRecord) -> wallaroo.KafkaRecord | None:
        return record if record.headers else None

    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", wallaroo.KafkaSourceConfig("t", "a", decode, envelope=True))
    builder.to_sink(wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(encode)))
    told = wallaroo.KafkaRecord(b"told", b"key", (("a", None),), 7, 1, 99)
    untold = wallaroo.KafkaRecord(b"untold")
    assert simulate(builder.build(), [("p", told), ("p", untold)]).outputs == [b"told"]


def test_what_an_encoder_may_not_return_is_set_aside() -> None:
    def encode(text: str) -> tuple[str, bytes, int, str]:
        return text, b"k", 0, "more"

    application = resolved(wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(encode)))
    ((_, step, _, error),) = simulate(application, [("p", b"x")]).set_aside
    assert step == "encoder"
    assert "expected (value, key) or (value, key, partition)" in str(error)
