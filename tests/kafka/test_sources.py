"""Topics as sources: each record once and in order, whatever happens to gateway and topic."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.gateway.harness import NOWHERE, U32
from tests.helpers import PATIENCE_S, free_address, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics, problem_of_source, topics, wait_delivered
from wallaroo.connectors.kafka.positions import Partition, Positions
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.source import KafkaReader
from wallaroo.connectors.kafka.stored import record_in
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.store import Store, StoreLimits
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import refusal_reason


@pytest.fixture
def app(broker: Broker) -> Iterator[Topics]:
    with topics(source=broker.topic(2), sink=broker.topic(), brokers=broker.address) as made:
        yield made


def name_of_source(app: Topics) -> str:
    text = (app._directory / "app.py").read_text()
    return text.split("KafkaSourceConfig('")[1].split("'")[0]


def test_records_come_once_and_in_order_of_their_partition_through_kills(
    broker: Broker, app: Topics
) -> None:
    topic = name_of_source(app)
    places = (
        *("kafka-source-before-submit", "kafka-source-after-submit"),
        *("log-before-write", "log-after-sync"),
    )
    for turn, place in enumerate(places):
        with app.started() as (client, gateway):
            assert client.wait_until_accepted("Lines", 200 * turn, PATIENCE_S)
            (app.faults / place).touch()
            for partition in (0, 1):
                lines = [b"%d %d" % (partition, 100 * turn + number) for number in range(100)]
                broker.write(topic, *lines, partition=partition)
            assert gateway.wait(PATIENCE_S) != 0
    with app.running() as client:
        assert client.wait_until_accepted("Lines", 800, PATIENCE_S)
        found = app.accepted()
    for of_partition in (b"0", b"1"):
        numbers = [int(line.split()[1]) for line in found if line.split()[0] == of_partition]
        assert numbers == list(range(400))


def test_an_aborted_transaction_is_not_read_and_an_open_one_is_waited_for(
    broker: Broker, app: Topics
) -> None:
    topic = name_of_source(app)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions()
    with app.running() as client:
        for value, end in (
            (b"aborted", producer.abort_transaction),
            (b"committed", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            producer.flush()
            end()
        assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
        assert app.accepted() == [b"committed"]


def test_new_partitions_are_found_while_running(broker: Broker) -> None:
    topic = broker.topic()
    options = ", settings={'topic.metadata.refresh.interval.ms': 200}"
    with topics(
        source=topic, sink=broker.topic(), brokers=broker.address, source_options=options
    ) as app:
        broker.write(topic, b"first")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
            broker.grow(topic, 2)
            broker.write(topic, b"second", partition=1)
            assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        broker.grow(topic, 3)
        broker.write(topic, b"third", partition=2)
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 3, PATIENCE_S)
            assert app.accepted() == [b"first", b"second", b"third"]


def test_reading_starts_at_the_end_or_at_a_time_once(broker: Broker) -> None:
    topic = broker.topic()
    broker.write(topic, b"old")
    texts = {"source": topic, "sink": topic, "brokers": broker.address}
    with topics(**texts, source_options=", start='latest'") as app:
        with app.running():
            wait_until(app.position, "a position")
        broker.write(topic, b"new")  # while it is stopped, after its first start
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
            assert app.accepted() == [b"new"]
    time_of_new = broker.records(topic)[1].timestamp()[1]
    with (
        topics(**texts, source_options=f", start={time_of_new}") as app,
        app.running() as client,
    ):
        assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
        assert app.accepted() == [b"new"]


def test_records_that_were_deleted_unread_stop_the_source_until_it_may_skip_them(
    broker: Broker,
) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.address}
    topic = texts["source"]
    with topics(**texts) as app:
        broker.write(topic, b"0", b"1")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        broker.write(topic, b"2", b"3", b"4")
        broker.delete_records(topic, 0, 4)
        with app.running() as client:
            deleted = f"records 2 to 3 of partition 0 of topic {topic} were deleted before"
            problem = problem_of_source(client, deleted)
            assert "on_lost='skip'" in problem
            lags = [
                s.value for s in client.samples() if s.metric.name == "wallaroo_kafka_lag_messages"
            ]
            assert lags == [3], "what an alert looks at, while it stands"
        app.describe(**texts, source_options=", on_lost='skip'")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 3, PATIENCE_S)
            assert app.accepted() == [b"0", b"1", b"4"]


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(broker: Broker) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.address}
    topic = texts["source"]
    with topics(**texts) as app:
        broker.write(topic, b"old")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
        broker.remove(topic)
        broker.make(topic)
        broker.write(topic, b"new 0", b"new 1")
        with app.running() as client:
            problem_of_source(client, "deleted and recreated")
        app.describe(**texts, source_options=", on_lost='skip'")
        with app.running() as client:
            assert client.wait_until_accepted("Lines", 3, PATIENCE_S)
            assert app.accepted() == [b"old", b"new 0", b"new 1"]


def test_a_missing_topic_is_told_and_read_when_it_is_there(broker: Broker) -> None:
    topic = f"late-{time.time_ns()}"
    texts = {"source": topic, "sink": broker.topic(), "brokers": broker.address}
    with topics(**texts) as app, app.running() as client:
        problem_of_source(client, "does not exist")
        values = {sample.metric.name: sample.value for sample in client.samples()}
        assert values["wallaroo_kafka_source_errors_total"], "an alert looks at it"
        broker.make(topic)
        broker.write(topic, b"there")
        assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
        assert client.status().sources[0].problem is None


def test_topics_are_created_where_the_application_says_how(broker: Broker) -> None:
    names = {kind: f"{kind}-{time.time_ns()}" for kind in ("source", "sink")}
    options = {
        "source_options": ", create=wallaroo.TopicSettings(partitions=3)",
        "sink_options": ", create=wallaroo.TopicSettings(config={'retention.ms': 3_600_000, "
        "'preallocate': False})",
    }
    with topics(**names, **options, brokers=broker.address) as app, app.running() as client:
        admin = AdminClient({"bootstrap.servers": broker.address})
        wait_until(lambda: set(names.values()) <= admin.list_topics().topics.keys(), "the topics")
        broker.write(names["source"], b"a", partition=2)
        app.publish(1)
        assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
        wait_delivered(client)
    resource = ConfigResource(ConfigResource.Type.TOPIC, names["sink"])
    (found,) = admin.describe_configs([resource]).values()
    assert found.result()["retention.ms"].value == "3600000"


def test_why_a_topic_cannot_be_created_is_told(broker: Broker) -> None:
    options = ", create=wallaroo.TopicSettings(config={'no.such': 1})"
    texts = {"source": f"none-{time.time_ns()}", "sink": broker.topic(), "source_options": options}
    with topics(**texts, brokers=broker.address) as app, app.running() as client:
        problem_of_source(client, "no.such")


@pytest.mark.parametrize(
    ("options", "group"),
    [
        ("", "wallaroo-topics-Lines"),
        (", prefix='sales'", "sales-topics-Lines"),
        (", prefix='sales', group='lines'", "lines"),
    ],
)
def test_positions_on_disk_are_committed_to_the_group(
    broker: Broker, options: str, group: str
) -> None:
    texts = {"source": broker.topic(2), "sink": broker.topic(), "brokers": broker.address}
    with topics(**texts, source_options=options) as app, app.running() as client:
        broker.write(texts["source"], b"a", b"b", partition=1)
        assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        wait_until(lambda: broker.committed(group, texts["source"], 1) == 2, "the commit")


def test_an_envelope_has_key_headers_timestamp_and_place(broker: Broker) -> None:
    texts = {"source": broker.topic(), "sink": broker.topic(), "brokers": broker.address}
    producer = Producer({"bootstrap.servers": broker.address})
    headers: list[tuple[str, str | bytes | None]] = [("unit", b"kg"), ("unit", None)]
    producer.produce(texts["source"], b"3", b"nut", timestamp=7000, headers=headers)
    producer.produce(texts["source"], None, b"nut", timestamp=8000)
    producer.flush()
    with topics(**texts, source_options=", envelope=True") as app, app.running() as client:
        assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        first, tombstone = map(record_in, app.accepted())
        wait_until(lambda: "wallaroo_kafka_lag_messages" in names_of(client), "the lag")
    topic = texts["source"]
    assert first == KafkaRecord(b"3", b"nut", (("unit", b"kg"), ("unit", None)), 7000, 0, 0, topic)
    assert tombstone == KafkaRecord(None, b"nut", (), 8000, 0, 1, topic)


def names_of(client: GatewayClient) -> set[str]:
    return {sample.metric.name for sample in client.samples()}


def test_a_broker_without_tls_and_one_that_is_not_there_are_told(broker: Broker) -> None:
    tls = ", settings={'security.protocol': 'ssl'}"
    for address, options, told in (
        (broker.address, tls, "the ssl.* settings"),
        (free_address(), "", "cannot be reached"),
    ):
        texts = {"source": "orders", "sink": "totals", "brokers": address}
        with topics(**texts, source_options=options) as app, app.running() as client:
            problem_of_source(client, told)


def test_a_record_over_the_limit_is_refused_and_those_behind_it_are_read(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    producer = Producer({"bootstrap.servers": broker.address})
    for value in (b"first", None, b"x" * 2000, b"last"):
        producer.produce(topic, value, b"key")
    producer.flush()
    framing = dataclasses.replace(U32, max_frame=1000)
    with reading(broker, topic, tmp_path, framing) as (journal, reader):
        assert journal.wait_accepted(0, 4, PATIENCE_S)
        first, empty, refused, last = payloads(journal)
        assert (first, empty, last) == (b"first", b"", b"last")
        assert refusal_reason(refused) == (
            f"record 2 of partition 0 of topic {topic} has 2000 bytes; the limit is 1000: raise "
            f"--max-frame for those after it; its value begins with b'{'x' * 100}'…"
        )
        reached = Positions.decoded(journal.reached("lines") or b"")
        assert reached.offsets == {Partition(topic, 0): 4}
        assert reader.problem is None


@pytest.mark.parametrize("behind", [[b"c"], []], ids=["records behind it", "nothing behind it"])
@pytest.mark.parametrize("count", [1, 50])
def test_a_batch_that_the_client_cannot_unpack_is_refused_once(
    broker: Broker, tmp_path: Path, count: int, behind: list[bytes]
) -> None:
    topic = broker.topic(2)
    broker.write(topic, b"a", b"b")
    large: dict[str, Any] = {"compression.type": "zstd", "linger.ms": 500}
    broker.write(topic, *[b"\0" * 10_000] * count, **large)
    broker.write(topic, *behind)
    broker.write(topic, *[b"other"] * 20, partition=1)
    small = {
        "message.max.bytes": 5000,
        "fetch.max.bytes": 5000,
        "receive.message.max.bytes": 6000,
    }
    due = 2 + 1 + len(behind) + 20
    with reading(broker, topic, tmp_path, U32, small) as (journal, reader):
        assert journal.wait_accepted(0, due, PATIENCE_S)
        (refused,) = [one for one in payloads(journal) if refusal_reason(one)]
        records = "record 2" if count == 1 else f"records 2 to {count + 1}"
        assert (refusal_reason(refused) or "").startswith(
            f"{records} of partition 0 of topic {topic} at {broker.address}: the batch cannot be "
            "unpacked: "
        )
        broker.write(topic, b"d")
        assert journal.wait_accepted(0, due + 1, PATIENCE_S)
        read = [one for one in payloads(journal) if one not in {refused, b"other"}]
        assert read == [b"a", b"b", *behind, b"d"]
        assert payloads(journal).count(b"other") == 20
        assert reader.problem is None


@contextlib.contextmanager
def reading(
    broker: Broker,
    topic: str,
    directory: Path,
    framing: Framing,
    settings: Mapping[str, int] | None = None,
) -> Iterator[tuple[Journal, KafkaReader]]:
    """A reader of *topic*, and the journal that it fills."""
    store = Store(directory)
    journal = store.journal
    at = Topic(topic, broker.address, settings or {})
    source = KafkaSource("lines", framing, bytes, NOWHERE, at)
    reader = KafkaReader(ConnectorContext(journal, store.outbox), 0, source)
    reader.start()
    try:
        yield journal, reader
    finally:
        reader.stop()
        store.close()


def payloads(journal: Journal) -> list[bytes]:
    """All that *journal* has, in order."""
    return [payload for block in journal.read(0, journal.end) for payload in U32.split(block.data)]


def test_a_full_journal_holds_reading_back(broker: Broker, tmp_path: Path) -> None:
    topic, values = broker.topic(), [b"x" * 1000] * 100
    broker.write(topic, *values)
    store = Store(tmp_path, limits=StoreLimits(JournalLimits(disk_bytes=50_000)))
    journal = store.journal
    source = KafkaSource("lines", U32, bytes, NOWHERE, Topic(topic, broker.address))
    reader = KafkaReader(ConnectorContext(journal, store.outbox), 0, source)
    reader.start()
    try:
        assert journal.wait_accepted(0, 100, PATIENCE_S)
        broker.write(topic, *values)
        assert not journal.wait_accepted(0, 101, 1.0)
        lag = "wallaroo_kafka_lag_messages", topic, "0"
        wait_until(lambda: samples(reader).get(lag) == 100, "the lag")
        journal.consume(journal.end)
        assert journal.wait_accepted(0, 200, PATIENCE_S)
        wait_until(lambda: samples(reader)[lag] == 0, "no lag")
        assert samples(reader)["wallaroo_kafka_source_bytes_total",] == 200 * (4 + 1000)
        assert samples(reader)["wallaroo_kafka_source_errors_total",] == 0
        assert reader.problem is None
    finally:
        reader.stop()
        store.close()


def samples(reader: KafkaReader) -> dict[tuple[str, ...], object]:
    """Its metrics, by name and the labels after that of the source."""
    return {(found.metric.name, *found.labels[1:]): found.value for found in reader.samples()}
