"""Topics as sinks: each output once for readers of committed records, whatever is killed."""

from __future__ import annotations

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import topics, wait_delivered


def test_outputs_are_there_once_whatever_step_of_a_transaction_is_the_last(
    broker: Broker,
) -> None:
    topic = broker.topic()
    in_doubt = {
        "kafka-sink-after-begin": 0,
        "kafka-sink-after-flush": 50,
        "kafka-sink-before-commit": 50,
        "kafka-sink-after-commit": 50,
    }
    with topics(source=broker.topic(), sink=topic, brokers=broker.address) as app:
        for place, written in in_doubt.items():
            with app.started() as (client, gateway):
                wait_delivered(client)
                assert broker.values(topic) == app.published()
                before = len(broker.values(topic, committed=False))
                (app.faults / place).touch()
                app.publish_until_killed(client, 50)
                assert gateway.wait(PATIENCE_S) != 0
            assert len(broker.values(topic, committed=False)) == before + written
        with app.running() as client:
            app.publish(client, 50)
            wait_delivered(client)
            assert client.status().delivered == 250
        assert broker.values(topic) == app.published()


def test_without_transactions_outputs_are_written_at_least_once(broker: Broker) -> None:
    topic = broker.topic()
    options = ", transactions=False"
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            app.publish(client, 50)
            wait_delivered(client)
        with app.running() as client:
            app.publish(client, 50)
            wait_delivered(client)
        assert broker.values(topic) == app.published()


def test_outputs_wait_for_room_in_a_short_queue_of_the_client(broker: Broker) -> None:
    topic = broker.topic()
    options = ", settings={'queue.buffering.max.messages': 10}"
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            app.publish(client, 1000)
            wait_delivered(client)
        assert broker.values(topic) == app.published()


def test_an_output_over_the_limit_waits_and_says_so(broker: Broker) -> None:
    topic = broker.topic(max_message_bytes="1000")
    with topics(source=broker.topic(), sink=topic, brokers=broker.address) as app:
        with app.running() as client:
            app.publish(client, 1)
            wait_delivered(client)
            app.publish_these(client, b"\0" + b"x" * 2000)
            wait_until(lambda: client.status().sinks[0].problem, "a problem")
            assert "too large" in (client.status().sinks[0].problem or "")
        assert broker.values(topic) == [b"0"]
