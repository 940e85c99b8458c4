"""The two ends of a stream between topics.

python -m benchmarks.kafka.ends BROKERS TOPIC FIRST COUNT

prints when it had read COUNT records behind the FIRST ones, and as many more, …, until its input is
closed.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.loads import Load

PARTITIONS = 2
"""Partitions of each topic."""
_AT_ONCE = 10_000
_QUEUE = 500_000
_PATIENCE_S = 60.0
_SYMBOL_OF_ORDER, _SYMBOL_OF_QUOTE = 12, 1
"""Where the symbol begins."""
READING: dict[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # its default, a second, lets every reader that is faster than the broker wait most of the time
    "fetch.queue.backoff.ms": 5,
    "log_level": 0,
}
"""Options of all readers here: of the receiver and of those that are compared."""
WRITING: dict[str, Any] = {
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 0,
}
"""Options of all writers here."""


class Feed:
    """Writes records that readers of committed records see all at once.

    Args:
        brokers: The brokers.
        name: A name that no other feed has.
    """

    def __init__(self, brokers: str, name: str) -> None:
        options = {"bootstrap.servers": brokers, "transactional.id": f"feed-{name}"}
        self._producer = Producer({**WRITING, **options, "linger.ms": 20})
        self._producer.init_transactions(_PATIENCE_S)

    def write(self, records: Iterable[tuple[str, Iterable[dict[str, Any]]]]) -> None:
        """Write records to topics; nobody sees them yet."""
        self._producer.begin_transaction()
        for topic, of_topic in records:
            rest = iter(of_topic)
            for number in itertools.count():
                if not (batch := list(itertools.islice(rest, _AT_ONCE))):
                    break
                self._add(topic, batch, number)
        self._producer.flush(_PATIENCE_S)

    def show(self) -> float:
        """Let readers see what was written; returns when that began."""
        began = time.monotonic()
        self._producer.commit_transaction(_PATIENCE_S)
        return began

    def _add(self, topic: str, batch: list[dict[str, Any]], number: int) -> None:
        while len(self._producer) > _QUEUE:
            self._producer.poll(0.01)
        options: dict[str, Any] = {} if "key" in batch[0] else {"partition": number % PARTITIONS}
        if self._producer.produce_batch(topic, batch, **options) != len(batch):
            msg = f"records for {topic} were refused: {batch[0].get('_error')}"
            raise RuntimeError(msg)


def records_of(load: Load, topics: Sequence[str]) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """The records of *load* for each of the *topics* of its inputs; the key is the symbol."""
    for topic, data in zip(topics, load.inputs, strict=True):
        yield topic, (record(load, payload) for payload in payloads(data))


def first_records(load: Load, topics: Sequence[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The records that come before them, so that a system is known to be running."""
    if not load.first:
        return [(topic, [record(load, b"ready")]) for topic in topics]
    return [
        (topic, [record(load, frame[4:]) for frame in load.first.get(source, ())])
        for topic, source in zip(topics, load.sources, strict=True)
    ]


def record(load: Load, payload: bytes) -> dict[str, Any]:
    """A record with *payload*, as `Producer.produce_batch` takes it."""
    if load.name != "market_spread":
        return {"value": payload}
    start = _SYMBOL_OF_ORDER if payload[0] == 1 else _SYMBOL_OF_QUOTE
    return {"value": payload, "key": payload[start : start + 4]}


def payloads(data: bytes) -> Iterator[bytes]:
    """The payloads of frames."""
    place = 0
    while place < len(data):
        end = place + 4 + int.from_bytes(data[place : place + 4], "big")
        yield data[place + 4 : end]
        place = end


def until_closed() -> threading.Event:
    """Set when the input of this process is closed."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def receive(brokers: str, topic: str, first: int, count: int) -> None:
    """Read committed records, and tell when there were *count* behind the *first*, and so on."""
    options = {"bootstrap.servers": brokers, "group.id": f"receiver-{topic}"}
    consumer = Consumer({**READING, **options})
    consumer.assign([TopicPartition(topic, at, 0) for at in range(PARTITIONS)])
    ended = until_closed()
    seen = -first
    with contextlib.closing(consumer):
        while not ended.is_set():
            if (one := consumer.poll(0.05)) is None:
                continue
            more = consumer.consume(_AT_ONCE, 0)
            seen += sum(message.error() is None for message in (one, *more))
            while seen >= count:
                seen -= count
                print(time.monotonic(), flush=True)


if __name__ == "__main__":
    receive(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
