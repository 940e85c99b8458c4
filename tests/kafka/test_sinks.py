"""Topics as sinks: each output once for readers of committed records, whatever is killed."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from structlog.testing import capture_logs

from tests.connectors.publishing import PublishingOutbox
from tests.gateway.harness import NOWHERE, finished, outputs, publish
from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker, Cluster
from tests.kafka.harness import problem_of_sink, topics, wait_delivered, wait_for_problem
from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.records import KafkaRecord, packed_output, unpacked
from wallaroo.connectors.kafka.resolve import KafkaSink
from wallaroo.connectors.kafka.sink import KafkaSinkWriter
from wallaroo.connectors.kafka.stored import value_of
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.store import Store


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
                app.publish_until_killed(50)
                assert gateway.wait(PATIENCE_S) != 0
            assert len(broker.values(topic, committed=False)) == before + written
        with app.running() as client:
            app.publish(50)
            wait_delivered(client)
            assert client.status().delivered == 250
        assert broker.values(topic) == app.published()


def test_an_output_for_a_partition_that_there_is_not_waits_and_is_named(broker: Broker) -> None:
    topic, options = broker.topic(), ", on_refused='wait'"
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            elsewhere = packed_output((b"x", b"key", 999))
            app.publish_these(b"\0first", b"\0second", elsewhere, b"\0after")
            wait_until(lambda: len(broker.values(topic)) >= 2, "the outputs before it")
            problem = problem_of_sink(client, f"output 3 ({len(elsewhere)} bytes): ")
            assert "a partition of it, does not exist" in problem
        assert broker.values(topic) == [b"first", b"second"]


@pytest.mark.parametrize("transactions", [True, False])
def test_outputs_that_the_topic_does_not_take_become_dead_letters(
    transactions: bool, broker: Broker
) -> None:
    topic = broker.topic(max_message_bytes="1000")
    options = f", transactions={transactions}, settings={{'message.max.bytes': 5000}}"
    with (
        topics(
            source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
        ) as app,
        app.running() as client,
    ):
        refused = {
            4: (packed_output((b"where", b"key", 999)), "partition 999 does not exist"),
            7: (b"\0" + b"b" * 2000, "2,001 bytes: a record is too large"),  # for the brokers
            8: (b"\0" + b"c" * 6000, "6,001 bytes: a record is too large"),  # for the client
            12: (packed_output(KafkaRecord(b"when", timestamp_ms=1 << 62)), "timestamp"),
        }
        good = {at: b"\0%d" % at for at in range(1, 21) if at not in refused}
        app.publish_these(*((refused.get(at) or (good[at],))[0] for at in range(1, 21)))
        wait_delivered(client)
        letters = {letter.place: letter for letter in client.letters(Choice(), 100)}
        assert letters.keys() == {f"output {at}" for at in refused}
        for at, (output, reason) in refused.items():
            letter = letters[f"output {at}"]
            assert reason in letter.error
            assert value_of(letter.payload or b"") == unpacked(output).value
        assert letters["output 4"].key == "b'key'"
        assert client.status().sinks[0].problem is None
        wanted = [one[1:] for one in good.values()]
        assert (broker.values(topic) if transactions else once(broker.values(topic))) == wanted


@pytest.mark.parametrize("place", ["kafka-sink-before-commit", "kafka-sink-after-commit"])
def test_a_refused_output_becomes_one_dead_letter_if_the_gateway_is_killed(
    place: str, broker: Broker
) -> None:
    topic = broker.topic()
    with topics(source=broker.topic(), sink=topic, brokers=broker.address) as app:
        some = [b"\0before", *[packed_output((b"x", b"key", 999))] * 2, b"\0after"]
        app.publish_these_and_die(place, *some)
        with app.running() as client:
            app.publish_these(b"\0later")
            wait_delivered(client)
            letters = wait_until(lambda: client.letters(Choice(), 100), "the letters", PATIENCE_S)
            assert [letter.place for letter in letters] == ["output 2", "output 3"]
        assert broker.values(topic) == [b"before", b"after", b"later"]


def test_an_output_for_a_partition_that_was_added_meanwhile_is_written(broker: Broker) -> None:
    topic = broker.topic()
    with (
        topics(source=broker.topic(), sink=topic, brokers=broker.address) as app,
        app.running() as client,
    ):
        app.publish_these(b"\0before")
        wait_delivered(client)
        broker.grow(topic, 3)
        app.publish_these(packed_output((b"new", b"key", 2)))
        wait_delivered(client)
        assert not client.letters(Choice(), 100)
        assert broker.values(topic) == [b"before", b"new"]


def once(values: list[bytes]) -> list[bytes]:
    return [*dict.fromkeys(values)]


def test_without_transactions_outputs_are_written_at_least_once(broker: Broker) -> None:
    topic = broker.topic()
    options = ", transactions=False"
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            app.publish(50)
            wait_delivered(client)
        with app.running() as client:
            app.publish(50)
            wait_delivered(client)
        assert broker.values(topic) == app.published()


def test_outputs_wait_for_room_in_a_short_queue_of_the_client(broker: Broker) -> None:
    topic = broker.topic()
    options = ", settings={'queue.buffering.max.messages': 10}"
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            app.publish(1000)
            wait_delivered(client)
            values = {sample.metric.name: sample.value for sample in client.samples()}
            assert (
                values["wallaroo_kafka_sink_bytes_total"] == sum(map(len, app.published())) + 1000
            )
            assert values["wallaroo_kafka_transactions_total"] == 1
            assert values["wallaroo_kafka_sink_errors_total"] == 0
        assert broker.values(topic) == app.published()


def test_an_output_over_the_limit_waits_and_says_so(broker: Broker) -> None:
    topic, options = broker.topic(max_message_bytes="1000"), ", on_refused='wait'"
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            app.publish(1)
            wait_delivered(client)
            app.publish_these(b"\0" + b"x" * 2000)
            problem_of_sink(client, "too large")
        assert broker.values(topic) == [b"0"]


@pytest.mark.parametrize("transactions", [True, False])
@pytest.mark.parametrize("refused_by", ["the brokers", "the client"])
def test_the_outputs_before_one_over_the_limit_are_written(
    transactions: bool, refused_by: str, broker: Broker
) -> None:
    by_brokers = refused_by == "the brokers"
    topic = broker.topic(max_message_bytes="1000" if by_brokers else "1000000")
    options = (
        f", transactions={transactions}, settings={{'message.max.bytes': 5000}}, on_refused='wait'"
    )
    with topics(
        source=broker.topic(), sink=topic, brokers=broker.address, sink_options=options
    ) as app:
        with app.running() as client:
            small = [b"%d" % number for number in range(100)]
            large = b"x" * (2000 if by_brokers else 6000)
            app.publish_these(*(b"\0" + value for value in (*small, large, b"after")))
            wait_until(lambda: len(broker.values(topic)) >= len(small), "the outputs before it")
            named = f"output 101 ({len(large) + 1:,} bytes): a record is too large"
            wait_until(lambda: named in (client.status().sinks[0].problem or ""), "the problem")
            values = {sample.metric.name: sample.value for sample in client.samples()}
            assert values["wallaroo_kafka_sink_errors_total"] not in {0, 1}, "each attempt counts"
        if transactions:
            assert broker.values(topic) == small
        else:
            assert once(broker.values(topic)) == small


def test_a_backlog_that_does_not_fit_in_the_time_of_a_transaction_goes_out_in_parts(
    broker: Broker,
) -> None:
    topic, options = broker.topic(), ", settings={'transaction.timeout.ms': 3000}"
    with (
        topics(
            source=broker.topic(), sink=topic, brokers=broker.proxied, sink_options=options
        ) as app,
        app.running() as client,
    ):
        app.publish(1)
        wait_delivered(client)
        large = [b"\0" + bytes([65 + number]) * 4_000 for number in range(25)]
        broker.proxy.manner = "slow"  # all of it takes 5 s
        try:
            for packed in large:
                app.publish_these(packed)
            wait_delivered(client)
        finally:
            broker.proxy.manner = "open"
        assert broker.values(topic) == [b"0", *(packed[1:] for packed in large)]


def test_outputs_go_on_in_a_topic_that_is_made_anew_while_it_is_written(broker: Broker) -> None:
    topic = broker.topic(2)
    with (
        topics(source=broker.topic(), sink=topic, brokers=broker.address) as app,
        app.running() as client,
    ):
        app.publish(50)
        wait_delivered(client)
        broker.remove(topic)
        app.publish(50)
        problem_of_sink(client, "does not exist")
        broker.make(topic, 2)
        app.publish(50)
        wait_delivered(client)
        assert sorted(broker.values(topic)) == sorted(app.published()[50:])


def test_outputs_go_on_in_a_topic_whose_leaders_changed_before_it_was_made_anew(
    cluster: Cluster,
) -> None:
    topic = cluster.topic(4)
    spread = {"sticky.partitioning.linger.ms": 0}  # each output goes to another partition
    options = f", transactions=False, settings={spread}"
    with (
        topics(
            source=cluster.topic(), sink=topic, brokers=cluster.address, sink_options=options
        ) as app,
        app.running() as client,
    ):
        app.publish(50)
        wait_delivered(client)
        for node in cluster.nodes.values():  # each partition has a new leader with a later epoch
            node.stop()
            cluster.start()
            app.publish(50)
            wait_delivered(client)
        before = app.published()
        assert set(cluster.values(topic)) == set(before)
        logged = len(app.log.read_text())
        cluster.remove(topic)
        cluster.make(topic, 4)
        app.publish(50)
        wait_delivered(client)
        assert set(cluster.values(topic)) == set(app.published()[len(before) :])
        why = app.log.read_text()[logged:]
        # the producer may have failed first, because a broker did not know the topic
        recreated = f"{topic} at {cluster.address} was deleted and recreated"
        assert recreated in why or '"sink failed"' in why


class Writing(PublishingOutbox):
    """An outbox and the sink that writes its outputs to a topic; may be stopped and started."""

    def __init__(self, path: Path, broker: Broker) -> None:
        super().__init__(path)
        self.broker, self.topic = broker, broker.topic()
        self.sink = KafkaSink(
            "sink", bytes, NOWHERE, Topic(self.topic, broker.address), prefix="sales"
        )
        self.start()

    def start(self) -> None:
        self.open()
        self.writer = KafkaSinkWriter(self.context, 0, self.sink)

    def stop(self) -> None:
        self.writer.stop()
        self.close()

    def deliver(self, *values: bytes) -> None:
        self.publish(*(b"\0" + value for value in values))
        self.wait_until_delivered()


def test_brokers_with_a_lower_number_than_what_was_delivered_are_told(
    broker: Broker, tmp_path: Path
) -> None:
    writing = Writing(tmp_path, broker)
    writing.deliver(*(b"%d" % number for number in range(8)))
    writing.stop()
    group = f"sales-app-{writing.outbox.identity}-sink"
    broker.set_committed(group, writing.topic, 3, "3|")  # as a backup has it
    writing.start()
    writing.publish(b"\0next")
    problem = wait_for_problem(
        lambda: writing.writer.problem, "has the first 3 outputs, and 8 were delivered"
    )
    assert problem.startswith(f"topic {writing.topic} at {broker.address}, by the number")
    assert "Output 4 to 8 is no longer kept" in problem
    assert "on_lost='skip'" in problem
    assert len(broker.values(writing.topic)) == 8
    writing.stop()
    writing.sink = dataclasses.replace(writing.sink, skips_lost=True)
    with capture_logs() as logs:
        writing.start()
        writing.wait_until_delivered()
    assert "has the first 3 outputs, and 8 were delivered" in str(logs)
    assert broker.values(writing.topic)[8:] == [b"next"]
    writing.stop()


def test_tools_that_show_the_lag_of_groups_show_none(broker: Broker, tmp_path: Path) -> None:
    writing = Writing(tmp_path, broker)
    group = f"sales-app-{writing.outbox.identity}-sink"
    first, reader = TopicPartition(writing.topic, 0), broker.reader(writing.topic)

    def has_no_lag() -> bool:
        asked = ConsumerGroupTopicPartitions(group, [first])
        (found,) = broker.admin.list_consumer_group_offsets([asked]).values()
        ((at,), (_, end)) = found.result().topic_partitions, reader.get_watermark_offsets(first)
        return bool(at.offset == end > 0)

    for _ in range(2):
        writing.deliver(*(b"%d" % number for number in range(8)))
        wait_until(has_no_lag, "the offset at the end")
        broker.write(writing.topic, b"written by somebody else")
        wait_until(has_no_lag, "the offset at the end")
        writing.stop()
        writing.start()
    reader.close()
    writing.stop()


def test_a_number_that_somebody_else_has_changed_is_told(broker: Broker, tmp_path: Path) -> None:
    writing = Writing(tmp_path, broker)
    writing.deliver(b"0", b"1")
    writing.stop()
    group = f"sales-app-{writing.outbox.identity}-sink"
    broker.set_committed(group, writing.topic, 1, "")  # as tools reset offsets
    writing.start()
    writing.publish(b"\0next")
    wait_for_problem(
        lambda: writing.writer.problem, "has the first 0 outputs, and 2 were delivered"
    )
    writing.stop()


def test_brokers_whose_number_has_expired_get_the_next_outputs(
    broker: Broker, tmp_path: Path
) -> None:
    writing = Writing(tmp_path, broker)
    writing.deliver(b"0", b"1")
    writing.stop()
    broker.forget_group(f"sales-app-{writing.outbox.identity}-sink")
    with capture_logs() as logs:
        writing.start()
        writing.deliver(b"2")
    assert "keep no number of the sink, and 2 outputs were delivered" in str(logs)
    assert broker.values(writing.topic) == [b"0", b"1", b"2"]
    writing.stop()


class Hanging:
    """A producer, one method of which returns the first time only when it is let go."""

    def __init__(self, producer: Producer, method: str, let_go: threading.Event) -> None:
        self._producer, self._method, self._let_go = producer, method, let_go

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._producer, name)
        return functools.partial(self._hang, method) if name == self._method else method

    def _hang(self, method: Callable[..., Any], *arguments: Any) -> None:
        assert self._let_go.wait(PATIENCE_S)
        method(*arguments)


@pytest.mark.parametrize(
    "method", ["init_transactions", "send_offsets_to_transaction", "commit_transaction"]
)
def test_outputs_are_there_once_if_a_call_of_the_client_does_not_return(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    topic, let_go = broker.topic(), threading.Event()
    produce, made = TopicClient.producer, list[Hanging]()

    def hang_once(client: TopicClient, **own: Any) -> Any:
        producer = produce(client, **own)
        if "transactional.id" not in own or made:
            return producer
        made.append(Hanging(producer, method, let_go))
        return made[0]

    monkeypatch.setattr(TopicClient, "producer", hang_once)
    monkeypatch.setattr("wallaroo.connectors.kafka.stuck_calls._STUCK_S", 2.0)
    store = Store(tmp_path)
    outbox = store.outbox
    values = [b"%d" % number for number in range(50)]
    for chunk, some in enumerate((values[:25], values[25:]), 1):
        publish(outbox, finished(chunk, outputs(*(b"\0" + one for one in some))))
    sink = KafkaSink("sink", bytes, NOWHERE, Topic(topic, broker.address))
    writer = KafkaSinkWriter(ConnectorContext(store.journal, outbox), 0, sink)
    try:
        wait_until(lambda: "is replaced" in (writer.problem or ""), "the end of the wait")
        wait_until(lambda: outbox.delivered_to(0) == len(values), "the delivery of everything")
        let_go.set()  # so the call is made late
        wait_until(lambda: not calls(), "the end of the call")
        assert broker.values(topic) == values
    finally:
        let_go.set()
        writer.stop()
        store.close()


def calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sink-0-call"]
