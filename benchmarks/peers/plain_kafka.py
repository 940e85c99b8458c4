"""The applications in a loop on confluent-kafka, calling the applications' own functions.

A consumer, a dictionary and a producer in one process: what a careful user writes without a
framework. Its state is in memory only. Prints `ready` when it has processed the first records.

    python -m benchmarks.peers.plain_kafka APP BROKERS GUARANTEE INTERVAL FIRST OUT TOPIC…

GUARANTEE is `exactly-once`, with outputs and offsets in a transaction every INTERVAL seconds, or
`at-least-once`, with a flush and a commit of offsets. Ends when its input is closed.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka.ends import PARTITIONS, READING, WRITING, until_closed
from benchmarks.loads import APPS

_AT_ONCE = 5_000
_PATIENCE_S = 60.0
Step = Callable[[bytes], Iterable[bytes]]
"""From the value of a record to the values of its outputs."""


def market_spread(topics: list[str]) -> dict[str, Step]:
    """Market Spread by topic."""
    import application as app

    state: dict[bytes, Any] = defaultdict(app.SymbolData)
    key_of, encode = app.symbol_of.function, app.order_result_encoder.function

    def step(decode: Callable[[bytes], Any], compute: Callable[..., Any]) -> Step:
        def of_message(value: bytes) -> Iterable[bytes]:
            message = decode(value)
            output, _ = compute(message, state[key_of(message)])
            return () if output is None else (encode(output),)

        return of_message

    steps = (
        step(app.order_decoder.function, app.check_order.function),
        step(app.market_data_decoder.function, app.update_market_data.function),
    )
    return dict(zip(topics, steps, strict=True))


def word_count(topics: list[str]) -> dict[str, Step]:
    """Word Count by topic."""
    import application as app

    state: dict[str, Any] = defaultdict(app.WordTotals)
    decode, split, key_of = app.decoder.function, app.split.function, app.first_letter.function
    compute, encode = app.count_word.function, app.encoder.function

    def of_line(value: bytes) -> Iterable[bytes]:
        return [encode(compute(word, state[key_of(word)])[0]) for word in split(decode(value))]

    return dict.fromkeys(topics, of_line)


def run(
    steps: dict[str, Step], brokers: str, guarantee: str, interval_s: float, first: int, out: str
) -> None:
    """Read, process and write until the input is closed."""
    own = {"bootstrap.servers": brokers}
    consumer = Consumer({**READING, **own, "group.id": f"plain-{out}"})
    exactly_once = guarantee == "exactly-once"
    transactional: dict[str, Any] = {"transactional.id": f"plain-{out}"} if exactly_once else {}
    reports: dict[str, Any] = {"delivery.report.only.error": True, "on_delivery": _check}
    producer = Producer({**WRITING, **own, **transactional, **reports, "enable.idempotence": True})
    if exactly_once:
        producer.init_transactions(_PATIENCE_S)
        producer.begin_transaction()
    read = [TopicPartition(topic, at, 0) for topic in steps for at in range(PARTITIONS)]
    consumer.assign(read)
    gc.freeze()
    gc.set_threshold(4 * _AT_ONCE)  # else it would look at the records again and again
    ended = until_closed()
    produce, done, told, waiting, committed = producer.produce, 0, False, False, time.monotonic()
    while not ended.is_set():
        one = consumer.poll(max(0.0, min(interval_s, 0.05)) if waiting else 0.05)
        if one is None and not told and done >= first:
            told = True
            print("ready", flush=True)
        if one is not None:
            messages: list[Any] = [one, *consumer.consume(_AT_ONCE, 0)]
            for message in messages:
                if message.error() is None:
                    for output in steps[message.topic()](message.value()):
                        produce(out, output)
                    done += 1
            waiting = True
        producer.poll(0)
        if waiting and time.monotonic() - committed >= interval_s:
            if exactly_once:
                at = [p for p in consumer.position(read) if p.offset >= 0]
                group = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(at, group, _PATIENCE_S)
                producer.commit_transaction(_PATIENCE_S)
                producer.begin_transaction()
            else:
                producer.flush(_PATIENCE_S)
                consumer.commit(asynchronous=False)
            waiting, committed = False, time.monotonic()


def _check(error: Any, _message: Any) -> None:
    if error is not None:
        raise RuntimeError(error)


def main() -> None:
    """Run one of the applications."""
    name, brokers, guarantee, interval, first, out, *topics = sys.argv[1:]
    sys.path.insert(0, str(APPS / name))
    steps = {"market_spread": market_spread, "word_count": word_count}[name](topics)
    run(steps, brokers, guarantee, float(interval), int(first), out)


if __name__ == "__main__":
    main()
