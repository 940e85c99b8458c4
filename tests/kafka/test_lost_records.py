"""Records that are gone before they were read, and topics that are made anew, while it runs."""

from __future__ import annotations

import pytest

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics, problem_of_source, topics

SKIP = ", on_lost='skip'"


def skipping(app: Topics, texts: dict[str, str]) -> None:
    app.describe(**texts, source_options=SKIP)


def test_a_partition_that_the_brokers_have_cut_short_is_not_read_again(broker: Broker) -> None:
    texts = {"source": broker.topic(2), "sink": broker.topic(), "brokers": broker.address}
    topic = texts["source"]
    with topics(**texts) as app:
        broker.write(topic, b"0", b"1")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        app.move_position(0, 5)
        with app.running() as client:
            why = "partition 0 ends at 2, and was read up to 5 before: the brokers have lost"
            assert "on_lost='skip'" in problem_of_source(client, why)
        skipping(app, texts)
        with app.running() as client:
            # what is written before would count as read, too
            wait_until(lambda: app.offset(0) == 2, "the source to go back to the end")
            broker.write(topic, b"2")
            broker.write(topic, b"other", partition=1)
            assert client.wait_until_accepted("Lines", 4, PATIENCE_S)
            assert sorted(app.accepted()) == [b"0", b"1", b"2", b"other"]


def test_retention_that_overtakes_a_running_source_stops_it_until_it_may_skip(
    broker: Broker,
) -> None:
    texts = {"source": broker.topic(2), "sink": broker.topic(), "brokers": broker.proxied}
    topic = texts["source"]
    with topics(**texts) as app:
        broker.write(topic, b"0")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
            broker.proxy.manner = "hole"  # so that it is not read
            try:
                broker.write(topic, b"1", b"2", b"3")
                broker.delete_records(topic, 0, 3)
            finally:
                broker.proxy.manner = "open"
            broker.write(topic, b"other", partition=1)
            why = "records 1 to 2 of partition 0 were deleted before they were read"
            problem = problem_of_source(client, why)
            assert f"topic {topic}" in problem
            assert "on_lost='skip'" in problem
        skipping(app, texts)
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 3, PATIENCE_S)
            assert sorted(app.accepted()) == [b"0", b"3", b"other"]


@pytest.mark.parametrize(("network", "records"), [("open", 1), ("hole", 5)])
def test_a_topic_that_is_made_anew_while_it_is_read_is_not_taken_for_the_old_one(
    broker: Broker, network: str, records: int
) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.proxied}
    topic = texts["source"]
    with topics(**texts) as app:
        broker.write(topic, b"old 0", b"old 1")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
            broker.proxy.manner = network
            try:
                broker.remove(topic)
                broker.make(topic)
                new = [b"new %d" % number for number in range(records)]
                broker.write(topic, *new)
            finally:
                broker.proxy.manner = "open"
            problem = problem_of_source(client, "deleted and recreated")
            assert "on_lost='skip'" in problem
            assert app.accepted() == [b"old 0", b"old 1"]
        skipping(app, texts)
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 2 + records, PATIENCE_S)
            assert app.accepted() == [b"old 0", b"old 1", *new]
