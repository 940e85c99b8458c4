"""A record of a topic of dead letters: what arrived, and what is known of its failure."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import wallaroo
from wallaroo.cli.main import main
from wallaroo.connectors.kafka.dead_letters import record_of_letter
from wallaroo.connectors.kafka.resolve import KafkaSink
from wallaroo.connectors.kafka.stored import refused, whole
from wallaroo.errors import ApplicationError
from wallaroo.graphs.drawing import dot, mermaid
from wallaroo.graphs.graph import graph_of
from wallaroo.model.application import Application
from wallaroo.model.lost_messages import LostMessage
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate
from wallaroo.wire.records import FailedMessage
from wallaroo.wire.refusals import refusal

RECORD = wallaroo.KafkaRecord(b"3", b"nut", (("unit", b"kg"), ("none", None)), 7, 1, 5, "orders")
FAILED = FailedMessage("Orders", "count", "app.py:7", "ValueError: no", "'3'", "'k'", 0, "a line")

SHOP = """
import wallaroo

def application_setup(args):
    builder = wallaroo.ApplicationBuilder("Shop")
    builder.new_pipeline("Orders", wallaroo.KafkaSourceConfig("orders", "a", bytes.decode)).done()
    return builder.build(dead_letters=wallaroo.KafkaDeadLetters("lost", "a"))
"""


class Seen:
    pass


def resolved(dead_letters: Any, source: Any = None, sink: str = "Orders") -> Application:
    source = source or wallaroo.KafkaSourceConfig("orders", "a", bytes.decode)
    to = wallaroo.TCPSinkConfig("", 1, wallaroo.encoder(str.encode)).named(sink)
    pipeline = wallaroo.source("Orders", source).to_sink(to)
    return resolve(wallaroo.build_application("Shop", pipeline, dead_letters=dead_letters))


def letters(**options: Any) -> wallaroo.KafkaDeadLetters:
    return wallaroo.KafkaDeadLetters("lost", "a", **options)


def record_of(payload: bytes | None, failed: FailedMessage = FAILED, source: Any = None) -> Any:
    (found,) = resolved(letters(), source).sources
    return record_of_letter(LostMessage("Shop", failed, 9_000_000, found, payload))


def test_a_record_keeps_value_key_and_headers_and_tells_of_its_failure_and_its_place() -> None:
    record = record_of(whole(RECORD))
    assert (record.value, record.key, record.timestamp_ms) == (b"3", b"nut", 9)
    assert (record.partition, record.offset, record.topic) == (None, None, None)
    assert record.headers == (
        ("unit", b"kg"),
        ("none", None),
        ("wallaroo.application", b"Shop"),
        ("wallaroo.source", b"Orders"),
        ("wallaroo.pipeline", b"Orders"),
        ("wallaroo.step", b"count"),
        ("wallaroo.place", b"app.py:7"),
        ("wallaroo.error", b"ValueError: no"),
        ("wallaroo.message", b"'3'"),
        ("wallaroo.key", b"'k'"),
        ("wallaroo.traceback", b"a line"),
        ("wallaroo.topic", b"orders"),
        ("wallaroo.partition", b"1"),
        ("wallaroo.offset", b"5"),
        ("wallaroo.timestamp", b"7"),
    )


def test_a_record_that_fails_again_tells_of_its_last_failure_alone() -> None:
    again = dataclasses.replace(RECORD, headers=record_of(whole(RECORD)).headers, topic="lost")
    found = record_of(whole(again), FAILED._replace(error="ValueError: again")).headers
    assert [value for name, value in found if name == "wallaroo.error"] == [b"ValueError: again"]
    assert [value for name, value in found if name == "wallaroo.topic"] == [b"lost"]
    assert found[0] == ("unit", b"kg")


def test_a_record_that_was_refused_has_no_value_and_its_place() -> None:
    record = record_of(refused("it is too long", RECORD), FAILED._replace(key=None))
    headers = dict(record.headers)
    assert (record.value, record.key) == (None, b"nut")
    assert (headers["wallaroo.partition"], headers["wallaroo.offset"]) == (b"1", b"5")
    assert "wallaroo.key" not in headers


def test_what_was_refused_tells_of_no_message_and_no_place_as_no_decoder_had_it() -> None:
    for payload in (refused("it is too long", RECORD), bytes(refusal("it is too long"))):
        names = dict(record_of(payload).headers)
        assert {"wallaroo.message", "wallaroo.place"}.isdisjoint(names)
        assert names["wallaroo.error"] == b"ValueError: no"


def test_a_refused_output_has_value_key_headers_and_target_of_its_record() -> None:
    output = wallaroo.KafkaRecord(b"v", b"\xff\0", (("h", b"\xff"),), 7, 1, topic="nowhere")
    failed = FailedMessage("", "sink Orders", "output 3", "no", "b'v'", "b'\\xff\\x00'")
    record = record_of_letter(LostMessage("Shop", failed, 9_000_000, None, whole(output)))
    assert (record.value, record.key, record.topic) == (b"v", b"\xff\0", None)
    assert record.headers == (
        ("h", b"\xff"),
        ("wallaroo.application", b"Shop"),
        ("wallaroo.step", b"sink Orders"),
        ("wallaroo.place", b"output 3"),
        ("wallaroo.error", b"no"),
        ("wallaroo.message", b"b'v'"),
        ("wallaroo.key", b"b'\\xff\\x00'"),
        ("wallaroo.topic", b"nowhere"),
        ("wallaroo.partition", b"1"),
        ("wallaroo.timestamp", b"7"),
    )


def test_a_message_of_another_source_has_its_payload_and_the_key_that_is_known() -> None:
    tcp = wallaroo.TCPSourceConfig("", 0, wallaroo.decoder(4, ">I")(bytes.decode))
    record = record_of(b"\0wallaroo:any", source=tcp)
    assert (record.value, record.key) == (b"\0wallaroo:any", b"'k'")
    assert {"wallaroo.topic", "wallaroo.offset"}.isdisjoint(dict(record.headers))


def test_texts_that_are_none_in_utf_8_are_escaped() -> None:
    record = record_of(b"3", FAILED._replace(step="half \ud800"))
    assert dict(record.headers)["wallaroo.step"] == b"half \\ud800"


def test_what_failed_behind_a_state_has_no_value() -> None:
    record = record_of(None, FAILED._replace(key=None))
    assert (record.value, record.key) == (None, None)
    assert dict(record.headers)["wallaroo.message"] == b"'3'"


def test_the_topic_is_the_last_sink_and_sources_store_whole_records_for_it() -> None:
    application = resolved(letters(prefix="shop", settings={"linger.ms": 3}))
    sink = application.sinks[-1]
    assert isinstance(sink, KafkaSink)
    assert (sink.name, sink.where, sink.prefix) == ("dead letters", "topic lost at a:9092", "shop")
    assert sink.topic.settings == {"linger.ms": 3}
    assert [getattr(source, "stores_records", None) for source in application.sources] == [True]
    assert [sink.name for sink in resolved(None).sinks] == ["Orders"]
    assert "topic lost" in mermaid(graph_of(application))
    assert "topic lost" in dot(graph_of(application))


def test_each_of_the_apis_can_publish_dead_letters() -> None:
    builder = wallaroo.ApplicationBuilder("Shop")
    builder.new_pipeline("Orders", wallaroo.KafkaSourceConfig("orders", "a", bytes.decode)).done()
    built = resolve(builder.build(dead_letters=letters(keep=False)))
    assert built.dead_letters is not None
    assert not built.dead_letters.keeps


def test_a_simulation_has_the_records_of_its_dead_letters() -> None:
    @wallaroo.state_computation(name="seen", state=Seen)
    def seen(text: str, _seen: Seen) -> str:
        if text == "in":
            raise ValueError(text)
        return text

    def after(text: str) -> str:
        if text == "after":
            raise ValueError(text)
        return text

    orders = wallaroo.source("Orders", wallaroo.KafkaSourceConfig("orders", "a", bytes.decode))
    to = wallaroo.KafkaSinkConfig("o", "a", str.encode)
    found = simulate(
        wallaroo.build_application(
            "Shop", orders.key_by(str.upper).to(seen).map(after).to_sink(to), dead_letters=letters()
        ),
        [("Orders", one) for one in (dataclasses.replace(RECORD, value=b"in"), b"after", b"ok")],
    )
    assert (found.outputs, found.by_sink) == ([b"ok"], {"Orders": [b"ok"]})
    inside, behind = found.records["dead letters"]
    assert (inside.value, inside.key) == (b"in", b"nut")
    told = dict(inside.headers)
    assert told["wallaroo.step"] == b"seen"
    assert (told["wallaroo.key"], told["wallaroo.offset"]) == (b"'IN'", b"5")
    assert (behind.value, behind.key) == (None, None)
    assert dict(behind.headers)["wallaroo.message"] == b"'after'"
    assert "wallaroo.key" not in dict(behind.headers)


def test_a_check_says_where_dead_letters_go(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    told = CliRunner().invoke(main, ["check", str(tmp_path / "shop.py")])
    assert told.stdout.splitlines()[1:3] == ["  Orders", "  dead letters → topic lost"]


@pytest.mark.parametrize(
    ("dead_letters", "problem"),
    [
        ("lost", "dead_letters is 'lost'; expected wallaroo.KafkaDeadLetters(topic, brokers)"),
        (letters(keep="no"), "dead_letters: keep is 'no'; expected a bool"),
        (wallaroo.KafkaDeadLetters("a b", "a"), "dead_letters: topic is 'a b'; expected the name"),
    ],
)
def test_what_is_wrong_with_it_is_told(dead_letters: Any, problem: str) -> None:
    with pytest.raises(ApplicationError, match=r"test_dead_letters\.py:\d+: dead_letters") as told:
        resolved(dead_letters)
    assert problem in str(told.value)


def test_a_sink_of_its_name_is_refused() -> None:
    with pytest.raises(ApplicationError, match="two sinks are named 'dead letters'"):
        resolved(letters(), sink="dead letters")
