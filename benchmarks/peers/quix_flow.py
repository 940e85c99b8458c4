"""The applications on Quix Streams, calling the applications' own functions.

Runs in a separate environment. Its state is in RocksDB, with changelogs in topics of Kafka.
Prints `ready` when it has processed the first records, and ends when its input is closed.

    python -m benchmarks.peers.quix_flow APP BROKERS GUARANTEE INTERVAL FIRST OUT TOPIC…
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from quixstreams import Application

from benchmarks.loads import APPS

_SETTINGS = {
    "loglevel": "ERROR",
    "auto_offset_reset": "earliest",
    "consumer_extra_config": {"fetch.queue.backoff.ms": 5, "log_level": 0},
    "producer_extra_config": {
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 0,
    },
}


class _Counted:
    """Tells when so many records are processed."""

    def __init__(self, first: int) -> None:
        self._left = first

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            print("ready", flush=True)


def market_spread(app: Application, topics: list[str], out: Any, counted: _Counted) -> None:
    """The dataflow of Market Spread."""
    import application

    check, update = application.check_order.function, application.update_market_data.function
    encode, new = application.order_result_encoder.function, (0.0, 0.0, True)

    def step(message: Any, state: Any) -> bytes | None:
        entity = application.SymbolData()
        entity.last_bid, entity.last_offer, entity.should_reject_trades = state.get("data", new)
        if isinstance(message, application.Order):
            output, _ = check(message, entity)
            return None if output is None else bytes(encode(output))
        update(message, entity)
        state.set("data", (entity.last_bid, entity.last_offer, entity.should_reject_trades))
        counted.one()
        return None

    orders, quotes = (
        app.dataframe(app.topic(topic, key_deserializer="bytes", value_deserializer="bytes"))
        for topic in topics
    )
    both = quotes.apply(application.market_data_decoder.function).concat(
        orders.apply(application.order_decoder.function)
    )
    rejected = both.apply(step, stateful=True).filter(lambda output: output is not None)
    rejected.to_topic(out)


def word_count(app: Application, topics: list[str], out: Any, counted: _Counted) -> None:
    """The dataflow of Word Count: it counts by word, as a state of it is a value of JSON."""
    import application

    decode, split = application.decoder.function, application.split.function
    encode = application.encoder.function

    def words(value: bytes) -> list[str]:
        counted.one()
        return list(split(decode(value)))

    def count(word: str, state: Any) -> bytes:
        seen = state.get("count", 0) + 1
        state.set("count", seen)
        return bytes(encode((word, seen)))

    source = app.topic(topics[0], key_deserializer="bytes", value_deserializer="bytes")
    texts = {
        f"{part}_{way}": "str"
        for part in ("key", "value")
        for way in ("serializer", "deserializer")
    }
    split_lines = app.dataframe(source).apply(words, expand=True)
    by_word = split_lines.group_by(lambda word: word, name="word", **texts)
    by_word.apply(count, stateful=True).to_topic(out)


def main() -> None:
    """Run one of the applications."""
    name, brokers, guarantee, interval, first, out_topic, *topics = sys.argv[1:]
    sys.path.insert(0, str(APPS / name))
    with tempfile.TemporaryDirectory() as directory:
        app = Application(
            broker_address=brokers,
            consumer_group=f"quix-{out_topic}",
            state_dir=Path(directory),
            processing_guarantee=guarantee,
            commit_interval=float(interval),
            **_SETTINGS,
        )
        make, key = {"market_spread": (market_spread, "bytes"), "word_count": (word_count, "str")}[
            name
        ]
        out = app.topic(out_topic, key_serializer=key, value_serializer="bytes")
        make(app, topics, out, _Counted(int(first)))
        threading.Thread(target=lambda: (sys.stdin.read(), app.stop()), daemon=True).start()
        app.run()


if __name__ == "__main__":
    main()
