"""Topics of Kafka in all forms of the API, and what an application makes of their records."""

from __future__ import annotations

import dataclasses
import re
import time
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


def resolved(sink: Any = None, topic: Any = "t", **source: Any) -> Any:
    config = wallaroo.KafkaSourceConfig(topic, "a", bytes.decode, **source)
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", config)
    builder.to_sink(sink or wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str)))
    return resolve(builder.build())


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"topic": []}, "topic is an empty list; expected at least one name"),
        ({"topic": ["t", "^u"]}, r"topic is '\^u'; expected the name of one topic: .*re\.compile"),
        ({"topic": ["t", "u", "t"]}, "topic has 't' twice"),
        ({"topic": {"t"}}, r"topic is \{'t'\}; expected the name of one topic: .* a list of names"),
        ({"topic": ["t", ["u"]]}, r"topic is \['u'\]; expected the name of one topic"),
        ({"start": []}, r"start is \[\]; expected 'earliest'"),
        ({"group": ["g"]}, r"group is \['g'\]; expected the name of a group, or None"),
        ({"oauth": []}, r"oauth is \[\]; expected a function"),
        ({"topic": re.compile(b"t")}, "expected a pattern of text, not of bytes"),
        ({"topic": re.compile("x"), "create": wallaroo.TopicSettings()}, "topic is a pattern"),
        ({"start": "begin"}, "start is 'begin'; expected 'earliest'"),
        ({"start": datetime(2026, 1, 1)}, "has no time zone"),
        ({"on_lost": "ignore"}, "on_lost is 'ignore'"),
        ({"envelope": "no"}, "envelope is 'no'; expected a bool"),
        ({"group": ""}, "group is ''; expected the name of a group, or None"),
        ({"prefix": ""}, "prefix is ''; expected what names of groups are to begin with"),
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


def test_a_source_has_one_topic_several_or_those_that_match_a_pattern() -> None:
    def where(topic: Any) -> str:
        (source,) = resolved(wallaroo.KafkaSinkConfig("out", "a", str.encode), topic).sources
        return f"{source.where}, {source.label}"

    assert where("t") == where(["t"]) == "topic t at a:9092, topic t"
    assert where(("t", "u")) == "topics t, u at a:9092, topics t, u"
    assert where(re.compile("t.*")) == "topics that match t.* at a:9092, topics that match t.*"


def test_a_pattern_never_matches_internal_topics_or_a_part_of_a_name() -> None:
    (source,) = resolved(
        wallaroo.KafkaSinkConfig("out", "a", str.encode), re.compile("t.*|_.*")
    ).sources
    names = ["t", "t-eu", "_schemas", "__consumer_offsets", "at"]
    assert [name for name in names if source.topic.includes(name)] == ["t", "t-eu", "_schemas"]


def test_a_pattern_that_matches_the_topic_of_a_sink_at_the_same_brokers_is_refused() -> None:
    told = (
        "source 'p' reads topics that match t.* at a:9092, and sink 'p' writes topic totals, which "
        "matches: the application would read its own outputs"
    )
    sink = wallaroo.KafkaSinkConfig("totals", "b,a", str.encode)
    with pytest.raises(ApplicationError, match=re.escape(told)):
        resolved(sink, re.compile("t.*"))
    resolved(sink, re.compile("t(?!otals).*"))
    resolved(wallaroo.KafkaSinkConfig("totals", "b", str.encode), re.compile("t.*"))
    resolved(sink, ["totals", "t"])


def test_names_of_groups_begin_with_a_prefix_of_ones_choice() -> None:
    application = resolved(
        wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str), prefix="sales")
    )
    assert application.sources[0].prefix == "wallaroo"
    assert application.sinks[0].prefix == "sales"


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


def test_outputs_that_name_a_topic_are_under_its_name_and_wrong_names_are_set_aside() -> None:
    def encode(record: wallaroo.KafkaRecord) -> wallaroo.KafkaRecord:
        name = (record.value or b"").decode()
        return dataclasses.replace(record, topic=name or record.topic)

    config = wallaroo.KafkaSourceConfig("orders", "a", lambda record: record, envelope=True)
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("p", config)
    builder.to_sink(wallaroo.KafkaSinkConfig("totals", "a", wallaroo.encoder(encode)))
    sent = [wallaroo.KafkaRecord(value, topic="orders") for value in (b"", b"late", b"no name")]
    result = simulate(builder.build(), [("p", record) for record in sent])
    assert result.records == {
        "p": [wallaroo.KafkaRecord(b"")],
        "late": [wallaroo.KafkaRecord(b"late", topic="late")],
    }
    assert result.by_sink == {"p": [b"", b"late"]}
    ((_, step, _, error),) = result.set_aside
    assert (step, str(error)[:36]) == ("encoder", "topic of a record is 'no name'; expe")


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("timestamp", [True, False])
def test_outputs_keep_key_and_timestamp_unless_told_otherwise(key: bool, timestamp: bool) -> None:
    source = wallaroo.KafkaSourceConfig("orders", "a", bytes.decode)
    sink = wallaroo.KafkaSinkConfig(
        "totals", "a", wallaroo.encoder(str), keep_key=key, keep_timestamp=timestamp
    )
    made = wallaroo.build_application("app", wallaroo.source("p", source).to_sink(sink))
    sent = [wallaroo.KafkaRecord(b"1", b"nut", (), 7), b"2"]
    result = simulate(made, [("p", record) for record in sent])
    kept = wallaroo.KafkaRecord(b"1", b"nut" if key else None, (), 7 if timestamp else None)
    assert result.records == {"p": [kept, wallaroo.KafkaRecord(b"2")]}
    (resolved_source,) = resolve(made).sources
    assert isinstance(resolved_source, KafkaSource)
    assert resolved_source.stores_records == (key or timestamp)


def test_a_timestamp_that_brokers_would_refuse_as_too_late_is_not_kept() -> None:
    source = wallaroo.KafkaSourceConfig("orders", "a", bytes.decode)
    sink = wallaroo.KafkaSinkConfig("totals", "a", wallaroo.encoder(str))
    made = wallaroo.build_application("app", wallaroo.source("p", source).to_sink(sink))
    now_ms = int(time.time() * 1000)
    times = [now_ms + 60_000, now_ms + 2 * 3_600_000]
    sent = [wallaroo.KafkaRecord(b"1", timestamp_ms=at) for at in times]
    records = simulate(made, [("p", record) for record in sent]).records["p"]
    assert [record.timestamp_ms for record in records] == [times[0], None]


def test_only_a_source_whose_outputs_keep_something_stores_whole_records() -> None:
    orders = wallaroo.source("p", wallaroo.KafkaSourceConfig("orders", "a", bytes.decode))
    port = orders.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str)))
    windows = wallaroo.count_windows(2).over(wallaroo.Count())
    counts = orders.key_by(wallaroo.key_extractor(str)).to(windows)
    topic = counts.to_sink(wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str)))
    for pipeline in (port, topic):
        (source,) = resolve(wallaroo.build_application("app", pipeline)).sources
        assert isinstance(source, KafkaSource)
        assert not source.stores_records


def test_a_sink_has_the_name_of_one_topic() -> None:
    names: Any = {"t"}
    sink = wallaroo.KafkaSinkConfig(names, "a", wallaroo.encoder(str))
    with pytest.raises(ApplicationError, match=r"topic is \{'t'\}; expected the name of one topic"):
        resolved(sink)


def test_what_is_to_be_kept_is_a_bool() -> None:
    none: Any = None
    sink = wallaroo.KafkaSinkConfig("t", "a", wallaroo.encoder(str), keep_key=none)
    with pytest.raises(ApplicationError, match="keep_key is None; expected a bool"):
        resolved(sink)


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
