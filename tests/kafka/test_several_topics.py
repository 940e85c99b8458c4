"""Several topics as one source: listed, or found by a pattern while it runs."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker, Cluster
from tests.kafka.harness import Topics, problem_of_source, topics
from wallaroo.connectors.kafka.positions import Partition, Positions
from wallaroo.connectors.kafka.stored import record_in
from wallaroo.gateway.internal_api.client import GatewayClient

SOON = ", settings={'topic.metadata.refresh.interval.ms': 200}"


@pytest.fixture
def texts(broker: Broker) -> dict[str, Any]:
    """What an application of two topics needs."""
    names = [broker.topic(2), broker.topic()]
    return {"source": names, "sink": broker.topic(), "brokers": broker.address}


@pytest.fixture
def app(texts: dict[str, Any]) -> Iterator[Topics]:
    with topics(**texts) as made:
        yield made


def offsets(app: Topics) -> dict[Partition, int]:
    """The positions on disk."""
    stored = app.position()
    return {} if stored is None else dict(Positions.decoded(stored).offsets)


def read(client: GatewayClient, count: int) -> None:
    """Wait until *count* messages have been accepted since the first start."""
    assert client.wait_until_accepted("Lines", count, PATIENCE_S)


def pattern(prefix: str, broker: Broker) -> dict[str, Any]:
    """What an application needs that reads the topics whose names begin with *prefix*."""
    source, sink = re.compile(f"{prefix}-.*"), broker.topic()
    return {"source": source, "sink": sink, "brokers": broker.address, "source_options": SOON}


def lag(client: GatewayClient) -> dict[tuple[str, ...], object]:
    """The lag of each topic and partition."""
    samples = [one for one in client.samples() if one.metric.name == "wallaroo_kafka_lag_messages"]
    return {sample.labels[1:]: sample.value for sample in samples}


def test_records_of_two_topics_come_once_and_in_order_through_kills(
    broker: Broker, app: Topics
) -> None:
    first, second = app.texts["source"]
    places = [(first, 0), (first, 1), (second, 0)]
    for turn, fault in enumerate(("kafka-source-before-submit", "kafka-source-after-submit")):
        with app.started() as (client, gateway):
            read(client, 300 * turn)
            (app.faults / fault).touch()
            for number, (topic, partition) in enumerate(places):
                lines = [b"%d %d" % (number, 100 * turn + line) for line in range(100)]
                broker.write(topic, *lines, partition=partition)
            assert gateway.wait(PATIENCE_S) != 0
    with app.running() as client:
        read(client, 600)
        found = app.accepted()
        group = "wallaroo-topics-Lines"
        wait_until(lambda: broker.committed(group, first, 1) == 200, "a commit")
        wait_until(lambda: broker.committed(group, second) == 200, "a commit")
        due = {(first, "0"): 0, (first, "1"): 0, (second, "0"): 0}
        wait_until(lambda: lag(client) == due, "the lag")
    for number in range(len(places)):
        read_of_it = [int(line.split()[1]) for line in found if line.startswith(b"%d " % number)]
        assert read_of_it == list(range(200))


def test_a_missing_topic_is_named_while_others_are_read_and_read_from_its_beginning(
    broker: Broker,
) -> None:
    late = f"late-{uuid.uuid4().hex}"
    names = [broker.topic(), late]
    with (
        topics(
            source=names,
            sink=broker.topic(),
            brokers=broker.address,
            source_options=f"{SOON}, start='latest'",
        ) as app,
        app.running() as client,
    ):
        missing = f"topic {late}, or a partition of it, does not"
        assert problem_of_source(client, missing).startswith(missing)
        broker.write(names[0], b"other")
        read(client, 1)
        assert late in (client.status().sources[0].problem or "")
        broker.make(late)
        broker.write(late, b"0", b"1")
        read(client, 3)
        assert client.status().sources[0].problem is None
        assert app.accepted() == [b"other", b"0", b"1"]


def test_topics_of_a_list_are_created_if_the_application_says_how(broker: Broker) -> None:
    names = [f"{name}-{uuid.uuid4().hex}" for name in ("one", "two")]
    options = ", create=wallaroo.TopicSettings(partitions=2)"
    with (
        topics(
            source=names, sink=broker.topic(), brokers=broker.address, source_options=options
        ) as app,
        app.running() as client,
    ):
        wait_until(lambda: len(offsets(app)) == 4, "positions in both")
        broker.write(names[1], b"a", partition=1)
        read(client, 1)


def test_a_topic_that_was_recreated_stops_the_source_until_it_may_skip_its_records(
    broker: Broker, texts: dict[str, Any], app: Topics
) -> None:
    kept, recreated = texts["source"]
    for name in (kept, recreated):
        broker.write(name, b"old")
    with app.running() as client:
        read(client, 2)
        broker.remove(recreated)
        broker.make(recreated)
        broker.write(recreated, b"new")
        problem = problem_of_source(client, "is not the one that was read before")
        assert f"topic {recreated} is not" in problem
    app.describe(**texts, source_options=", on_lost='skip'")
    with app.running() as client:
        read(client, 3)
        broker.write(kept, b"more", partition=1)
        read(client, 4)
        assert app.accepted() == [b"old", b"old", b"new", b"more"]


def test_others_are_read_while_a_topic_is_away(broker: Broker, app: Topics) -> None:
    kept, deleted = app.texts["source"]
    for name in (kept, deleted):
        broker.write(name, b"old")
    with app.running() as client:
        read(client, 2)
        broker.remove(deleted)
        broker.write(kept, b"more")
        read(client, 3)
    with app.running() as client:
        problem_of_source(client, deleted)
        broker.write(kept, b"last")
        read(client, 4)
    assert offsets(app)[Partition(deleted, 0)] == 1


def test_topics_are_read_while_a_broker_is_away_also_by_a_gateway_that_starts_then(
    cluster: Cluster,
) -> None:
    names = [cluster.topic(3) for _ in range(2)]
    places = [(name, partition) for name in names for partition in range(3)]
    with topics(source=names, sink=cluster.topic(), brokers=cluster.address) as app:
        for turn, stop in enumerate((None, cluster.leader(names[0], 0), None)):
            with app.running() as client:
                if stop is not None:
                    cluster.nodes[stop].stop()
                for name, partition in places:
                    cluster.write(name, b"%d" % turn, partition=partition)
                read(client, len(places) * (turn + 1))
        assert sorted(app.accepted()) == sorted(b"%d" % turn for turn in range(3) for _ in places)


def test_a_topic_can_be_added_to_the_list_and_is_not_left_out_silently(
    broker: Broker, texts: dict[str, Any], app: Topics
) -> None:
    first, second = texts["source"]
    app.describe(**{**texts, "source": [first]}, source_options=", start='latest'")
    with app.running() as client:
        wait_until(lambda: offsets(app), "positions")
        broker.write(first, b"first")
        read(client, 1)
    broker.write(second, b"added")
    app.describe(**texts, source_options=", start='latest'")
    with app.running() as client:
        read(client, 2)
    app.describe(**{**texts, "source": second})
    with app.running() as client:
        problem_of_source(client, f"the source has read topic {first} until now")
    app.options = ("--on-lost", "skip")
    with app.running() as client:
        broker.write(second, b"more")
        read(client, 3)
    assert offsets(app) == {Partition(second, 0): 2}
    assert f"and forgets its positions in {first} (read from the beg" in app.log.read_text()
    app.describe(**texts)
    app.options = ()
    with app.running() as client:
        read(client, 4)
        assert app.accepted() == [b"first", b"added", b"more", b"first"]


def test_topics_of_a_pattern_that_appear_while_running_are_read_from_their_beginning(
    broker: Broker,
) -> None:
    prefix = f"orders-{uuid.uuid4().hex}"
    broker.make(f"{prefix}-eu")
    broker.make(f"all-{prefix}-eu")
    broker.write(f"{prefix}-eu", b"before the start")
    broker.write(f"all-{prefix}-eu", b"of a topic that does not match")
    options = pattern(prefix, broker)
    options["source_options"] += ", start='latest', envelope=True"
    with topics(**options) as app:
        with app.running() as client:
            wait_until(lambda: offsets(app), "positions")
            broker.make(f"{prefix}-us", 2)
            broker.write(f"{prefix}-us", b"us", partition=1)
            read(client, 1)
            broker.write(f"{prefix}-eu", b"eu")
            read(client, 2)
        broker.make(f"{prefix}-asia")
        broker.write(f"{prefix}-asia", b"asia")
        with app.running() as client:
            read(client, 3)
        records = [record_in(payload) for payload in app.accepted()]
    assert [(record.topic, record.value) for record in records] == [
        (f"{prefix}-us", b"us"),
        (f"{prefix}-eu", b"eu"),
        (f"{prefix}-asia", b"asia"),
    ]


def test_a_pattern_that_no_topic_matches_yet_is_no_problem(broker: Broker) -> None:
    prefix = f"orders-{uuid.uuid4().hex}"
    with topics(**pattern(prefix, broker)) as app, app.running() as client:
        wait_until(app.position, "positions")
        assert client.status().sources[0].problem is None
        broker.make(f"{prefix}-eu")
        broker.write(f"{prefix}-eu", b"eu")
        read(client, 1)


def test_a_deleted_topic_of_a_pattern_is_told_and_one_of_its_name_is_read_from_its_beginning(
    broker: Broker,
) -> None:
    prefix = f"orders-{uuid.uuid4().hex}"
    kept, deleted = f"{prefix}-kept", f"{prefix}-deleted"
    for name in (kept, deleted):
        broker.make(name)
        broker.write(name, b"old")
    with topics(**pattern(prefix, broker)) as app, app.running() as client:
        read(client, 2)
        broker.remove(deleted)
        wait_until(lambda: "topic deleted" in app.log.read_text(), "the warning", PATIENCE_S)
        assert f'"topic": "{deleted}"' in app.log.read_text()
        broker.write(kept, b"more")
        read(client, 3)
        assert client.status().sources[0].problem is None
        broker.make(deleted)
        broker.write(deleted, b"new 0", b"new 1")
        read(client, 5)
        assert app.accepted() == [b"old", b"old", b"more", b"new 0", b"new 1"]


def table(app: Topics, *arguments: str) -> list[list[str]]:
    """The rows that `wallaroo kafka positions` shows, once the brokers have answered."""
    shown = wait_until(lambda: app.positions(*arguments).output.splitlines()[1:], "positions")
    return [line.split() for line in shown]


def test_positions_are_shown_and_moved_by_topic(broker: Broker, app: Topics) -> None:
    first, second = app.texts["source"]
    broker.write(first, b"0", b"1", partition=1)
    broker.write(second, b"2")
    with app.running() as client:
        read(client, 3)
    assert sorted(table(app)) == sorted(
        [
            ["Lines", first, "0", "0", "0", "0", "0"],
            ["Lines", first, "1", "2", "0", "2", "0"],
            ["Lines", second, "0", "1", "0", "1", "0"],
        ]
    )
    assert table(app, "--topic", second) == [["Lines", second, "0", "1", "0", "1", "0"]]
    for topic, last in ((first, 1), (second, 0)):
        told = " ".join(app.positions("--topic", topic, "--partition", "7").output.split())
        due = f"topic {topic} at {broker.address} has no partition 7; the last one is {last}"
        assert told.endswith(due)
    told = " ".join(app.positions("--partition", "7").output.split())
    due = f"topic {first} at {broker.address} has no partition 7; the last one is 1, and no other"
    assert due in told
    told = app.positions("--topic", "none").output
    assert "source 'Lines' reads no topic none at" in told
    moved = app.positions("--topic", first, "--set", "earliest", "--yes")
    assert moved.exit_code == 0, moved.output
    assert offsets(app) == {Partition(first, 0): 0, Partition(first, 1): 0, Partition(second, 0): 1}
    told = app.positions("--set", "1", "--yes").output
    assert "offset 1 is not in partition 0 of topic" in " ".join(told.split())
    broker.remove(second)
    with app.running() as client:
        read(client, 5)
    told = app.positions().output
    assert f"source 'Lines': topic {second}, or a partition of it, does not exist" in told
    assert app.positions("--set", "latest", "--yes").exit_code == 0
    assert offsets(app)[Partition(second, 0)] == 1
