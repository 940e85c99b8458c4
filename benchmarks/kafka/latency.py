"""Milliseconds from the writing of a record until its output can be read, at a fixed rate.

    python -m benchmarks.kafka.latency BROKERS TOPIC RATE SECONDS

writes orders for all symbols at independent times (see `arrivals`); all of them are rejected.
"""

from __future__ import annotations

import contextlib
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.arrivals import due, send_on_time
from benchmarks.kafka.ends import PARTITIONS, READING, WRITING
from benchmarks.kafka.systems import Stream, started
from benchmarks.latency import Latencies, orders
from benchmarks.running import said

_WARM_UP_S = 10.0
_AT_ONCE = 10_000
_PATIENCE_S = 60.0
_SYMBOL = slice(16, 20)
"""Where a framed order has its symbol, which is the key of its record."""


def at_rate(brokers: str, stream: Stream, rate: int, seconds: float) -> Latencies:
    """Write orders to the first input of *stream*, which a system reads.

    Args:
        brokers: The brokers.
        stream: The topics.
        rate: Orders a second.
        seconds: How long, after some time that warms up.

    Raises:
        RuntimeError: An output is missing.
    """
    times = due("independent", rate, seconds + _WARM_UP_S)
    options = {"bootstrap.servers": brokers, "group.id": f"latency-{stream.out}"}
    with contextlib.closing(Consumer({**READING, **options})) as consumer:
        at = [TopicPartition(stream.out, number) for number in range(PARTITIONS)]
        for one in at:
            one.offset = consumer.get_watermark_offsets(one, _PATIENCE_S)[1]
        consumer.assign(at)
        command = ("-m", "benchmarks.kafka.latency", brokers, stream.inputs[0], str(rate))
        sender = started(sys.executable, *command, str(seconds + _WARM_UP_S))
        began = float(said(sender))
        arrived = _receive(consumer, len(times))
        share = float(said(sender))
        sender.communicate()
    taken = [end - began - start for start, end in zip(times, arrived, strict=True)]
    return Latencies.of(taken[int(rate * _WARM_UP_S) :], {"cores of the sender": share})


def _receive(consumer: Consumer, count: int) -> list[float]:
    """When the output of each of *count* orders could be read."""
    arrived, missing, unpack = [0.0] * count, count, orders().output.unpack
    heard = time.monotonic()
    while missing > 0:
        if (first := consumer.poll(1.0)) is None:
            if time.monotonic() - heard > _PATIENCE_S:
                msg = f"{missing:,} outputs of {count:,} are missing"
                raise RuntimeError(msg)
            continue
        messages = [first, *consumer.consume(_AT_ONCE, 0)]
        heard = time.monotonic()
        for message in messages:
            if message.error() is None:
                (number,) = unpack(message.value() or b"")
                arrived[number] = heard
                missing -= 1
    return arrived


def _send(brokers: str, topic: str, rate: int, seconds: float) -> None:
    times = due("independent", rate, seconds)
    framed = list(map(orders().message, range(len(times))))
    # without it, a request for each record takes more of the cores than what is measured
    producer = Producer({**WRITING, "bootstrap.servers": brokers, "linger.ms": 1})
    producer.list_topics(topic, _PATIENCE_S)

    def send(first: int, end: int) -> None:
        for order in framed[first:end]:
            producer.produce(topic, order[4:], order[_SYMBOL])
        producer.poll(0)

    send_on_time(times, send)
    producer.flush(_PATIENCE_S)


if __name__ == "__main__":
    brokers, topic, rate, seconds = sys.argv[1:]
    _send(brokers, topic, int(rate), float(seconds))
