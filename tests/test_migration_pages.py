"""The pages for users of Quix Streams and Faust: both sides of each example do the same."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT
from wallaroo.testing import load, simulate

AN_HOUR_NS = 3600 * 10**9
ORDERS = [
    {"shop": "north", "count": 2},
    {"shop": "south", "count": 1},
    {"shop": "north", "count": 3},
]
TOTALS = ["north: 2", "south: 1", "north: 5"]
READINGS = [
    {"sensor": "a", "at": "2024-01-01T00:00:05+00:00", "celsius": 20},
    {"sensor": "a", "at": "2024-01-01T00:01:05+00:00", "celsius": 30},
    {"sensor": "a", "at": "2024-01-01T00:00:58+00:00", "celsius": 22},
    {"sensor": "a", "at": "2024-01-01T00:01:20+00:00", "celsius": 32},
]
READING_THAT_CLOSES = {"sensor": "a", "at": "2024-01-01T00:03:00+00:00", "celsius": 0}
AVERAGES = ["a: 21.0", "a: 31.0"]
CLICKS = [
    {"page": "home", "at": 5.0},
    {"page": "home", "at": 30.0},
    {"page": "help", "at": 40.0},
    {"page": "home", "at": 70.0},
    {"page": "home", "at": 50.0},
]
COUNTS = ["home: 1", "home: 2", "help: 1", "home: 1", "home: 3"]
QUIX, FAUST = "migrating-from-quix-streams.md", "migrating-from-faust.md"
EXAMPLES = [
    (QUIX, 0, "orders", ORDERS, TOTALS),
    (QUIX, 1, "readings", READINGS, AVERAGES),
    (FAUST, 0, "orders", ORDERS, TOTALS),
    (FAUST, 1, "clicks", CLICKS, COUNTS),
]


def example(page: str, language: str, number: int) -> str:
    text = (ROOT / "docs" / page).read_text()
    return str(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[number])


@pytest.mark.parametrize(("page", "number", "topic", "messages", "expected"), EXAMPLES)
def test_ours(
    page: str, number: int, topic: str, messages: list[Any], expected: list[str], tmp_path: Path
) -> None:
    file = tmp_path / f"{page[:-3].replace('-', '_')}_{number}.py"
    file.write_text(example(page, "python", number))
    sent = [(topic, json.dumps(message).encode()) for message in messages]
    result = simulate(load(str(file)), sent, until_ns=2 * AN_HOUR_NS)
    assert [line.decode() for line in result.outputs] == expected


@pytest.mark.parametrize("number", [0, 1])
def test_faust(number: int) -> None:
    faust = pytest.importorskip("faust", reason="Faust is not installed")
    _, _, _, messages, expected = EXAMPLES[2 + number]
    scope: dict[str, Any] = {"__name__": f"from_faust_{number}"}
    exec(compile(example(FAUST, "py", number), FAUST, "exec"), scope)
    app, agent, record = (
        (scope["app"], scope["add"], scope["Order"])
        if number == 0
        else (scope["app"], scope["count"], scope["Click"])
    )
    app.conf.store = "memory://"

    outputs: list[str] = []

    async def send(*, value: str) -> None:
        outputs.append(value)

    scope["lines"].send = send

    async def run() -> None:
        async with agent.test_context() as tested:
            for message in messages:
                await tested.put(record(**message))

    assert issubclass(record, faust.Record)
    asyncio.run(run())
    assert outputs == expected


def key_of(line: str) -> str:
    return line.partition(":")[0]


def serve_mock_cluster(connection: Connection) -> None:
    from confluent_kafka import Producer

    cluster = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(cluster.list_topics(timeout=10).brokers.values()))
    connection.send(f"{broker.host}:{broker.port}")
    connection.recv()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("number", [0, 1])
def test_quix_streams(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On librdkafka's mock cluster, which creates a topic when it is named."""
    quixstreams = pytest.importorskip("quixstreams", reason="Quix Streams is not installed")
    from confluent_kafka import Producer
    from quixstreams.models.topics import TopicAdmin, TopicConfig, TopicManager

    class MockAdmin(TopicAdmin):  # type: ignore[misc]
        def inspect_topics(self, topic_names: list[str], timeout: float = 30) -> dict[str, Any]:
            return {
                name: TopicConfig(
                    len(
                        self.admin_client.list_topics(name, timeout=timeout).topics[name].partitions
                    ),
                    1,
                    {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"},
                )
                for name in topic_names
            }

        def create_topics(self, *_args: Any, **_options: Any) -> None:
            return None

    _, _, topic, messages, expected = EXAMPLES[number]
    if number == 1:
        messages = [*messages, READING_THAT_CLOSES]
    here, there = multiprocessing.get_context("spawn").Pipe()
    cluster = multiprocessing.get_context("spawn").Process(
        target=serve_mock_cluster, args=(there,), daemon=True
    )
    cluster.start()
    try:
        address = here.recv()
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        for message in messages:
            producer.produce(topic, json.dumps(message).encode(), key=b"one")
        producer.flush()
        real = quixstreams.Application

        def on_the_mock_cluster(**options: Any) -> Any:
            options |= {
                "broker_address": address,
                "state_dir": tmp_path,
                "loglevel": "ERROR",
                "commit_interval": 0.2,
                "topic_manager": TopicManager(MockAdmin(address), options["consumer_group"]),
            }
            return real(**options)

        monkeypatch.setattr(quixstreams, "Application", on_the_mock_cluster)
        outputs: list[str] = []
        scope: dict[str, Any] = {"__name__": f"from_quix_{number}"}
        exec(compile(example(QUIX, "py", number), QUIX, "exec"), scope)
        scope["sdf"].update(outputs.append)
        scope["app"].run(timeout=10)
        assert sorted(outputs, key=key_of) == sorted(expected, key=key_of)
    finally:
        here.send("stop")
        cluster.join(10)
