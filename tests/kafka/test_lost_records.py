"""Records that are gone before they were read, and topics that are made anew, while it runs."""

from __future__ import annotations

import pytest

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import problem_of_source, topics, wait_delivered

SKIP = ("--on-lost", "skip")


def test_a_partition_that_the_brokers_have_cut_short_is_not_read_again(broker: Broker) -> None:
    texts = {"source": broker.topic(2), "sink": broker.topic(), "brokers": broker.address}
    topic = texts["source"]
    with topics(**texts) as app:
        broker.write(topic, b"0", b"1")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        app.move_position(0, 5)
        with app.running() as client:
            why = f"partition 0 of topic {topic} ends at 2, and was read up to 5 before: the"
            assert "start once with --on-lost skip" in problem_of_source(client, why)
        app.options = SKIP
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
            broker.proxy.manner = "refused"  # so that no answer with the first of them is under way
            try:
                broker.write(topic, b"1", b"2", b"3")
                broker.delete_records(topic, 0, 3)
            finally:
                broker.proxy.manner = "open"
            broker.write(topic, b"other", partition=1)
            why = f"records 1 to 2 of partition 0 of topic {topic} were deleted before"
            problem = problem_of_source(client, why)
            assert f"topic {topic}" in problem
            assert "start once with --on-lost skip" in problem
        app.options = SKIP
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
            problem = problem_of_source(client, "is not the one that was read before")
            assert "start once with --on-lost skip" in problem
            assert app.accepted() == [b"old 0", b"old 1"]
        app.options = SKIP
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 2 + records, PATIENCE_S)
            assert app.accepted() == [b"old 0", b"old 1", *new]


def test_a_sink_goes_on_once_with_a_lower_number_of_the_brokers(broker: Broker) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.address}
    with topics(**texts) as app:
        with app.running() as client:
            app.publish(8)
            wait_until(lambda: app.delivered() == 8, "the deliveries on disk")
        broker.set_committed(app.group_of_sink(), texts["sink"], 3, "3|")  # as a backup has it
        app.options = SKIP
        with app.running() as client:
            app.publish(1)
            wait_delivered(client)
        app.options = ()
        with app.running() as client:
            app.publish(1)
            wait_delivered(client)
        assert broker.values(texts["sink"]) == app.published()
