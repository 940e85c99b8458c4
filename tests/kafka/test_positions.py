"""`wallaroo kafka positions`: shown while an application runs, and moved while it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics, topics

AGAIN = "Records are read again: their outputs are sent again, and states count them twice."
SKIPPED = "Records are skipped: they are never processed."


@pytest.fixture
def app(broker: Broker) -> Iterator[Topics]:
    """An application that reads a topic of two partitions."""
    texts = {"source": broker.topic(2), "sink": broker.topic(), "brokers": broker.proxied}
    with topics(**texts) as made:
        yield made


def write(broker: Broker, app: Topics, *values: bytes, partition: int = 0) -> None:
    broker.write(app.texts["source"], *values, partition=partition)


def read(app: Topics, count: int) -> None:
    """Start and stop, once *count* messages have been accepted since the first start."""
    with app.running() as client:
        assert client.wait_until_accepted("Lines", count, PATIENCE_S)
        assert client.status().sources[0].problem is None


def rows(app: Topics, *arguments: str) -> list[list[str]]:
    """The table without source and topic, and what is below it."""
    result = app.positions(*arguments)
    assert result.exit_code == 0, result.output
    head, *lines = (line.split() for line in result.output.splitlines())
    assert head == ["SOURCE", "TOPIC", "PARTITION", "POSITION", "FIRST", "END", "LAG"]
    return [line[2:] for line in lines if line[:2] == ["Lines", app.texts["source"]]]


def moved(app: Topics, target: str, *arguments: str) -> str:
    result = app.positions("--set", target, "--yes", *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(app: Topics, *arguments: str) -> str:
    result = app.positions(*arguments)
    assert result.exit_code in {1, 2}, result.output
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.output.split())


def test_positions_are_shown_while_it_runs_and_while_it_is_stopped(
    broker: Broker, app: Topics
) -> None:
    assert "is not a state directory" in refused(app)
    write(broker, app, b"0", b"1", b"2")
    broker.delete_records(app.texts["source"], 0, 1)
    with app.running():
        wait_until(lambda: app.offset(0) == 3, "a position", PATIENCE_S)
        assert rows(app) == [["0", "3", "1", "3", "0"], ["1", "0", "0", "0", "0"]]
    write(broker, app, b"3", b"4", partition=1)
    assert rows(app) == [["0", "3", "1", "3", "0"], ["1", "0", "0", "2", "2"]]
    assert rows(app, "--partition", "1") == [["1", "0", "0", "2", "2"]]


def test_a_position_is_moved_to_the_first_record_an_offset_a_time_and_the_end(
    broker: Broker, app: Topics
) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for second in range(3):
        value = b"%d" % second
        producer.produce(app.texts["source"], value, partition=0, timestamp=1000 * (second + 1))
    producer.flush()
    read(app, 3)
    assert AGAIN in moved(app, "earliest")
    read(app, 6)
    assert AGAIN in moved(app, "2", "--partition", "0")
    read(app, 7)
    time = datetime.fromtimestamp(2, UTC).isoformat()
    assert AGAIN in moved(app, time)
    read(app, 9)
    write(broker, app, b"3", b"4")
    told = moved(app, "latest")
    assert SKIPPED in told
    assert AGAIN not in told
    write(broker, app, b"5")
    read(app, 10)
    assert app.accepted() == [b"0", b"1", b"2", b"0", b"1", b"2", b"2", b"1", b"2", b"5"]


def test_other_partitions_and_later_starts_are_not_affected(broker: Broker, app: Topics) -> None:
    write(broker, app, b"0", partition=0)
    write(broker, app, b"1", partition=1)
    read(app, 2)
    told = moved(app, "earliest", "--source", "Lines", "--partition", "1")
    assert told.splitlines()[1].split() == ["Lines", app.texts["source"], "1", "1", "0"]
    for _ in range(2):
        read(app, 3)
        assert app.accepted()[2:] == [b"1"]
    assert "nothing to move" in moved(app, "latest")


def test_it_asks_before_it_moves_a_position(broker: Broker, app: Topics) -> None:
    write(broker, app, b"0")
    read(app, 1)
    for answer, code, position in (("n\n", 1, 1), ("", 1, 1), ("y\n", 0, 0)):
        result = app.positions("--set", "earliest", answer=answer)
        assert "Move the positions? [y/N]" in result.output
        assert (result.exit_code, app.offset(0)) == (code, position)


def test_what_cannot_be_moved_is_refused_with_the_reason(broker: Broker, app: Topics) -> None:
    topic = f"topic {app.texts['source']} at {broker.proxied}"
    write(broker, app, b"0", b"1", b"2")
    broker.delete_records(app.texts["source"], 0, 1)
    app.begin()
    told = "source 'Lines' has not been read yet: its first start begins at earliest"
    assert told in app.positions().output
    assert told in refused(app, "--set", "latest")
    broker.proxy.manner = "refused"
    try:
        for arguments in ([], ["--set", "latest"]):
            assert f"{broker.proxied} cannot be reached" in refused(app, *arguments)
    finally:
        broker.proxy.manner = "open"
    with app.running():
        wait_until(lambda: app.offset(0) == 3, "a position", PATIENCE_S)
        told = refused(app, "--set", "earliest", "--yes")
        assert "state is in use by another process; stop the application first" in told
    for offset in ("0", "4"):
        told = refused(app, "--set", offset, "--partition", "0", "--yes")
        assert f"offset {offset} is not in partition 0 of {topic}, which begins at 1" in told
    told = refused(app, "--set", "earliest", "--partition", "2", "--yes")
    assert f"{topic} has no partition 2; the last one is 1" in told
    told = refused(app, "--source", "Orders")
    assert "'topics' has no source 'Orders' that reads a topic; it has: 'Lines'" in told
    assert app.offset(0) == 3


def test_a_topic_that_was_recreated_is_read_once_all_positions_are_moved(
    broker: Broker, app: Topics
) -> None:
    write(broker, app, b"old")
    read(app, 1)
    broker.remove(app.texts["source"])
    broker.make(app.texts["source"], 2)
    write(broker, app, b"skipped", b"new")
    assert rows(app) == [["0", "-", "0", "2", "-"], ["1", "-", "0", "0", "-"]]
    told = app.positions().output
    assert f"source 'Lines': topic {app.texts['source']} is not the one that was read" in told
    assert "move its positions, or start once with --on-lost skip" in told
    told = refused(app, "--set", "1", "--partition", "0", "--yes")
    assert "move all partitions, without --partition" in told
    assert SKIPPED not in moved(app, "earliest")
    moved(app, "1", "--partition", "0")
    read(app, 2)
    assert app.accepted() == [b"old", b"new"]
