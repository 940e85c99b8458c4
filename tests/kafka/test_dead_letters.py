"""A topic of dead letters: each one is there once, with what arrived and why it failed."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

import wallaroo
from tests.helpers import PATIENCE_S, ROOT, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import problem_of_sink, topics, wait_delivered
from tests.spark.harness import PATIENCE_S as RUN_S
from tests.spark.harness import called
from wallaroo.connectors.kafka.records import packed_output
from wallaroo.connectors.kafka.stored import value_of
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.run.background_run import BackgroundRun
from wallaroo.testing import Simulation, load, simulate

APP = """
import wallaroo

def application_setup(args):
    brokers, source, sink, lost = args
    numbers = wallaroo.source("Numbers", wallaroo.KafkaSourceConfig(source, brokers, int))
    to = wallaroo.KafkaSinkConfig(sink, brokers, output)
    return wallaroo.build_application(
        "lost",
        numbers.to(positive).key_by(parity).to(count).to(no_four).to_sink(to),
        dead_letters=wallaroo.KafkaDeadLetters(lost, brokers),
    )

@wallaroo.computation(name="positive")
def positive(number):
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number

def parity(number):
    return number % 2

class Count:
    count = 0

@wallaroo.state_computation(name="count", state=Count)
def count(number, entity):
    if number == 6:
        raise ValueError("no six")
    entity.count += 1
    return number

@wallaroo.computation(name="no four")
def no_four(number):
    if number == 4:
        raise ValueError("no four")
    return number

def output(number):
    if number == 9:
        headers = (("h", b"\\xff"),)
        return wallaroo.KafkaRecord(b"v", b"\\xff\\0", headers, 7, topic="nowhere")
    return str(number)
"""


def headers(record: Message[Any, Any]) -> dict[str, str]:
    found: Any = record.headers() or ()
    return {name: value.decode("latin-1") for name, value in found}


@pytest.mark.spark
def test_a_dead_letter_is_a_record_with_what_arrived_and_why_it_failed(
    broker: Broker, tmp_path: Path
) -> None:
    source, sink, lost = (broker.topic() for _ in range(3))
    (tmp_path / "app.py").write_text(APP)
    command = ["run", str(tmp_path / "app.py"), "--max-frame", "1000", "--no-ui"]
    command += ["--state-dir", str(tmp_path / "state"), "--", broker.address, source, sink, lost]
    producer = Producer({"bootstrap.servers": broker.address})
    values = (b"1", b"x", b"-2", b"6", b"4", b"9", b"7" * 2000, b"2")
    sent = [
        wallaroo.KafkaRecord(value, b"k" + value[:1], (("unit", b"kg"),), 7000, 0, offset, source)
        for offset, value in enumerate(values)
    ]
    for one in sent:
        producer.produce(source, one.value, one.key, headers=[*one.headers], timestamp=7000)
    producer.flush()
    with BackgroundRun(command) as running:
        wait_until(lambda: len(broker.values(sink)) == 2, "the outputs", RUN_S)
        wait_until(lambda: len(broker.values(lost)) == 6, "the dead letters", RUN_S)
        assert running.stop() == 0
    assert set(broker.values(sink)) == {b"1", b"2"}  # they have different keys
    found = {headers(record)["wallaroo.step"]: record for record in broker.records(lost)}
    read = ("value", "key")
    assert {step: tuple(getattr(one, name)() for name in read) for step, one in found.items()} == {
        "decoder": (None, b"k7"),  # the last of both: it was too long
        "positive": (b"-2", b"k-"),
        "count": (b"6", b"k6"),
        "no four": (None, None),
        "sink Numbers": (b"v", b"\xff\0"),
    }
    about = headers(found["count"])
    assert about | {"wallaroo.traceback": ""} == {
        "unit": "kg",
        "wallaroo.application": "lost",
        "wallaroo.source": "Numbers",
        "wallaroo.pipeline": "Numbers",
        "wallaroo.step": "count",
        "wallaroo.place": "app.py:29",
        "wallaroo.error": "ValueError: no six",
        "wallaroo.message": "6",
        "wallaroo.key": "0",
        "wallaroo.traceback": "",
        "wallaroo.topic": source,
        "wallaroo.partition": "0",
        "wallaroo.offset": "3",
        "wallaroo.timestamp": "7000",
    }
    assert "no six" in about["wallaroo.traceback"]
    long = headers(found["decoder"])
    assert (long["wallaroo.offset"], long["unit"]) == ("6", "kg")
    assert {"wallaroo.message", "wallaroo.place"}.isdisjoint(long)
    refused = headers(found["sink Numbers"])
    assert "topic nowhere, or a partition of it, does not exist" in refused["wallaroo.error"]
    assert refused["h"] == "\xff"
    assert (refused["wallaroo.topic"], refused["wallaroo.timestamp"]) == ("nowhere", "7")
    assert headers(found["no four"])["wallaroo.message"] == "4"
    simulated = simulate(load(tmp_path / "app.py", command[-4:]), [("Numbers", r) for r in sent])
    for letter in simulated.records["dead letters"]:
        told = {name: (value or b"").decode() for name, value in letter.headers}
        record = found[told["wallaroo.step"]]
        if told.get("wallaroo.offset") == headers(record).get("wallaroo.offset"):
            assert (letter.value, letter.key, told) == (
                record.value(),
                record.key(),
                headers(record),
            )
    at = ("--state-dir", str(tmp_path / "state"))
    kept = [*map(json.loads, called("dead-letters", "list", "--json", *at).stdout.splitlines())]
    assert sorted(letter["step"] for letter in kept) == sorted([*found, "decoder"])
    (output,) = [letter for letter in kept if letter["step"] == "sink Numbers"]
    assert base64.b64decode(output["payload"]) == b"v"


def test_the_application_of_the_page_processes_its_dead_letters_again(tmp_path: Path) -> None:
    page = (ROOT / "docs/dead-letters.md").read_text()
    (shop,) = re.findall(r'```python title="shop.py"\n(.*?)```', page, re.DOTALL)

    def run(code: str, *sent: tuple[str, Any]) -> Simulation:
        file = tmp_path / ("shop.py" if code == shop else "corrected.py")
        file.write_text(code)
        return simulate(load(file, ["--again"]), sent)

    first = run(shop, ("Orders", b"1"), ("Orders", wallaroo.KafkaRecord(b"x", b"k")))
    (lost,) = first.records["dead letters"]
    assert (first.outputs, lost.value, lost.key) == ([b"1"], b"x", b"k")
    corrected = run(shop.replace("int(order)", "int(order, 36)"), ("Again", lost))
    assert (corrected.outputs, corrected.set_aside) == ([b"33"], [])
    (twice,) = run(shop, ("Again", lost)).records["dead letters"]
    third = run(shop, ("Again", twice))
    assert (third.outputs, third.set_aside) == ([], [])


def options(lost: str, brokers: str, *more: str) -> str:
    arguments = ", ".join([repr(lost), repr(brokers), *more])
    return f"dead_letters=wallaroo.KafkaDeadLetters({arguments})"


def is_at_end(broker: Broker, group: str, topic: str) -> bool:
    with contextlib.closing(broker.reader(topic)) as reader:
        _, end = reader.get_watermark_offsets(TopicPartition(topic, 0))
    return broker.committed(group, topic) == end


@pytest.mark.parametrize("keep", [True, False])
def test_each_dead_letter_is_there_once_whatever_step_is_the_last(
    keep: bool, broker: Broker
) -> None:
    steps = ("after-begin", "after-flush", "before-commit", "after-commit")
    places = ["outbox-after-publish", *(f"kafka-sink-{step}" for step in steps)]
    source, lost, brokers = broker.topic(), broker.topic(), broker.address
    texts = {"source": source, "sink": broker.topic(), "brokers": brokers}
    texts["build_options"] = options(lost, brokers, f"keep={keep}")
    with topics(**texts) as app:
        app.without_ticks()
        for number, place in enumerate(places):
            with app.started() as (client, gateway):
                wait_delivered(client)
                assert broker.values(lost) == [b"%d" % n for n in range(number)]
                if number:  # else the commit of the group's offset may be what is killed
                    group = app.group_of_sink("dead letters")
                    there = functools.partial(is_at_end, broker, group, lost)
                    wait_until(there, "the offset at the end", PATIENCE_S)
                broker.write(source, b"%d" % number)
                assert client.wait_until_accepted("Lines", number + 1, PATIENCE_S)
                (app.faults / place).touch()
                app.fail_last_until_killed()
                assert gateway.wait(PATIENCE_S) != 0
        with app.running() as client:
            wait_delivered(client)
            assert len(client.letters(Choice(), 100)) == keep * len(places)
            sinks = [(sink.name, sink.where) for sink in client.status().sinks]
            assert sinks[1:] == [("dead letters", f"topic {lost} at {brokers}")]
    assert broker.values(lost) == [b"%d" % number for number in range(len(places))]
    places_of = [headers(record)["wallaroo.offset"] for record in broker.records(lost)]
    assert places_of == [str(number) for number in range(len(places))]


def test_dead_letters_wait_for_their_topic_and_one_that_it_refuses_is_kept(broker: Broker) -> None:
    source, lost, brokers = broker.topic(), "letters-" + broker.topic(), broker.address
    texts = {"source": source, "sink": broker.topic(), "brokers": brokers}
    build_options = options(lost, brokers, "keep=False")
    with topics(**texts, build_options=build_options) as app:
        app.without_ticks()
        with app.running() as client:
            broker.write(source, b"x" * 2000, b"short")
            assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
            app.fail_last(2)
            problem_of_sink(client, "does not exist", index=1)
            assert client.status().undelivered == 2
            broker.make(lost, max_message_bytes="1500")
            wait_delivered(client)
            wait_until(lambda: client.letters(Choice(), 100), "the letter", PATIENCE_S)
            kept = client.letters(Choice(), 100)
        assert [(letter.step, value_of(letter.payload or b"")) for letter in kept] == [
            ("sink dead letters", b"x" * 2000)
        ]
        assert broker.values(lost) == [b"short"]
        app.describe(**texts)  # without dead letters
        with app.running() as client:
            assert [sink.name for sink in client.status().sinks] == ["Lines"]
            broker.write(source, b"later")
            assert client.wait_until_accepted("Lines", 3, PATIENCE_S)
            app.fail_last()
            wait_until(lambda: len(client.letters(Choice(), 100)) == 2, "it", PATIENCE_S)
            later = client.letters(Choice(), 100)[-1]
    assert later.payload == b"later"
    assert broker.values(lost) == [b"short"]


@pytest.mark.parametrize("place", ["kafka-sink-before-commit", "kafka-sink-after-commit"])
def test_a_refused_output_is_there_once_if_the_gateway_is_killed(
    place: str, broker: Broker
) -> None:
    sink, lost, brokers = broker.topic(), broker.topic(), broker.address
    texts = {"source": broker.topic(), "sink": sink, "brokers": brokers}
    with topics(**texts, build_options=options(lost, brokers)) as app:
        some = [b"\0before", *[packed_output((b"x", b"key", 999))] * 2, b"\0after"]
        for _ in range(2):
            app.publish_these_and_die(place, *some)
        with app.running() as client:
            app.publish_these(b"\0later")
            wait_delivered(client)
    assert broker.values(sink) == [*[b"before", b"after"] * 2, b"later"]
    written = [(record.value(), headers(record)) for record in broker.records(lost)]
    assert [value for value, _ in written] == [b"x"] * 4
    assert [about["wallaroo.place"] for _, about in written] == [
        f"output {n}" for n in (2, 3, 6, 7)
    ]
    assert {about["wallaroo.step"] for _, about in written} == {"sink Lines"}
