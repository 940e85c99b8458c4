"""Word Count and Market Spread between topics and ports, in every combination."""

from __future__ import annotations

import functools
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.helpers import ROOT, wait_until
from tests.kafka.broker import Broker
from tests.spark.harness import APPS, PATIENCE_S, Receiver, send
from wallaroo.run.background_run import BackgroundRun
from wallaroo.testing import load

CHAOS = ROOT / "tests" / "chaos" / "applications"
LINES, WORDS = 100, 3
ORDERS = 3_000


@pytest.mark.spark
def test_both_applications_are_exact_from_topic_and_port_to_topic_and_port(
    broker: Broker, tmp_path: Path
) -> None:
    topics = [broker.topic(partitions) for partitions in (1, 1, 1, 3, 3)]
    lines, orders, quotes, counts, results = topics
    load(APPS / "market_spread")
    demo = importlib.import_module("demo")
    with Receiver("lines") as counted, Receiver("frames") as rejected:
        command = [
            *("run", str(CHAOS / "both_applications.py"), "--workers", "2"),
            *("--state-dir", str(tmp_path / "state"), "--in", ",".join(["127.0.0.1:0"] * 3)),
            *("--out", f"{counted.address},{rejected.address}"),
            *("--", broker.address, *topics),
        ]
        with BackgroundRun(command) as running:
            of_topic = {"Lines": lines, "Orders": orders, "Quotes": quotes}
            accepted: dict[str, int] = defaultdict(int)

            def give(stream: str, payloads: list[bytes], *, by_topic: bool) -> None:
                if by_topic:
                    broker.write(of_topic[stream], *payloads)
                else:
                    send(running.sources[f"{stream} at port"], payloads)
                source = f"{stream} {'in topic' if by_topic else 'at port'}"
                accepted[source] += len(payloads)
                running.wait_until_accepted(source, accepted[source])

            sent = [*demo.rounds(ORDERS, seed=5)]
            for turn, (stream, payloads) in enumerate(sent):
                name = "Quotes" if stream == "Market Data" else stream
                give(name, payloads, by_topic=turn % 4 < 2)
            for by_topic in (True, False):
                give("Lines", [b"one two two"] * LINES, by_topic=by_topic)
            due = [result for some in demo.expected(sent) for result in some]
            at_port = (
                counted.wait_for(2 * WORDS * LINES),
                [demo.comparable(result) for result in rejected.wait_for(len(due))],
            )
            for topic, outputs in zip((counts, results), at_port, strict=True):
                there = functools.partial(_has, broker, topic, len(outputs))
                wait_until(there, f"outputs in {topic}", PATIENCE_S)
            assert running.stop() == 0
    in_topics = (
        broker.values(counts),
        [demo.comparable(result) for result in broker.values(results)],
    )
    words = {
        word: [b"%s => %d\n" % (word, number + 1) for number in range(times * 2 * LINES)]
        for word, times in ((b"one", 1), (b"two", 2))
    }
    assert len(due) > 100
    for found_words, found_results in (at_port, in_topics):
        assert by_key(found_words, lambda line: line.split()[0]) == words
        assert by_key(found_results, demo.key) == by_key(due, demo.key)


def _has(broker: Broker, topic: str, count: int) -> bool:
    return len(broker.values(topic)) >= count


def by_key(outputs: Iterable[bytes], key: Callable[[bytes], bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for output in outputs:
        found[key(output)].append(output)
    return found
