"""Milliseconds from the writing of a record until its output can be read, at a fixed rate."""

from __future__ import annotations

import contextlib
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka.ends import PARTITIONS, READING, WRITING
from benchmarks.kafka.systems import Stream
from benchmarks.latency import Latencies, Probe, orders

_TICK_S = 0.005
_WARM_UP_S = 10.0
_AT_ONCE = 10_000
_PATIENCE_S = 60.0


def at_rate(brokers: str, stream: Stream, rate: int, seconds: float) -> Latencies:
    """Write orders that are all rejected to the first input of *stream*, which a system reads.

    Args:
        brokers: The brokers.
        stream: The topics.
        rate: Orders a second.
        seconds: How long, after some time that warms up.

    Raises:
        RuntimeError: An output is missing.
    """
    probe, total = orders(), int(rate * (seconds + _WARM_UP_S))
    sent, taken = [0.0] * total, [0.0] * total
    ready = threading.Event()
    arguments = (brokers, stream.out, probe, sent, taken, ready)
    receiving = threading.Thread(target=_receive, args=arguments, daemon=True)
    receiving.start()
    ready.wait(_PATIENCE_S)
    _send(brokers, stream.inputs[0], probe, rate, sent)
    receiving.join(_PATIENCE_S)
    if receiving.is_alive():
        msg = f"{taken.count(0.0):,} outputs of {total:,} are missing"
        raise RuntimeError(msg)
    steady = sorted(taken[int(rate * _WARM_UP_S) :])

    def percentile(part: float) -> float:
        return 1000 * steady[min(int(part * len(steady)), len(steady) - 1)]

    return Latencies(percentile(0.5), percentile(0.99), percentile(0.999), 1000 * steady[-1], {})


def _send(brokers: str, topic: str, probe: Probe, rate: int, sent: list[float]) -> None:
    producer = Producer({**WRITING, "bootstrap.servers": brokers, "linger.ms": 0})
    producer.list_topics(topic, _PATIENCE_S)
    total, started, number = len(sent), time.monotonic(), 0
    while number < total:
        due = min(total, int((time.monotonic() - started) * rate))
        values = [probe.message(at)[4:] for at in range(number, due)]
        sent[number:due] = [time.monotonic()] * (due - number)
        for value in values:
            producer.produce(topic, value)
        producer.poll(0)
        number = due
        time.sleep(_TICK_S)
    producer.flush(_PATIENCE_S)


def _receive(
    brokers: str,
    topic: str,
    probe: Probe,
    sent: list[float],
    taken: list[float],
    ready: threading.Event,
) -> None:
    options = {"bootstrap.servers": brokers, "group.id": f"latency-{topic}"}
    consumer, missing, unpack = Consumer({**READING, **options}), len(sent), probe.output.unpack
    ends = [
        (at, consumer.get_watermark_offsets(TopicPartition(topic, at), _PATIENCE_S)[1])
        for at in range(PARTITIONS)
    ]
    consumer.assign([TopicPartition(topic, *at) for at in ends])
    ready.set()
    with contextlib.closing(consumer):
        while missing > 0:
            if (first := consumer.poll(1.0)) is None:
                continue
            messages = [first, *consumer.consume(_AT_ONCE, 0)]
            now = time.monotonic()
            for message in messages:
                if message.error() is None:
                    (number,) = unpack(message.value() or b"")
                    taken[number] = now - sent[number]
                    missing -= 1
