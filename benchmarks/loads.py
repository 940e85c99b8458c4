"""Finite streams whose right results are known."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import streams

BENCHMARKS = Path(__file__).parent
APPS = BENCHMARKS.parent / "apps"


@dataclass(frozen=True)
class Load:
    """A finite stream for one application."""

    app: Path
    sources: Sequence[str]
    """Names of the sources, in the order of `--in`."""
    inputs: Sequence[bytes]
    """The bytes for each source."""
    counts: Sequence[int]
    """Messages for each source."""
    unit: str
    """In what outputs are counted: bytes or lines."""
    outputs: int
    """How many of them must come out."""
    first: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    """Frames by source that have to arrive before all others; no outputs come of them."""

    @property
    def name(self) -> str:
        """Name of the application's directory."""
        return self.app.name

    @property
    def messages(self) -> int:
        """Messages of all sources."""
        return sum(self.counts)

    def write_to(self, directory: Path) -> list[Path]:
        """Write the inputs to files."""
        files = [directory / f"{self.name}-{number}.bin" for number in range(len(self.inputs))]
        for file, data in zip(files, self.inputs, strict=True):
            file.write_bytes(data)
        return files


def market_spread(messages: int, seed: int = 7) -> Load:
    """Half orders, half quotes."""
    listed, half = streams.symbols(), messages // 2
    framed, rejected = streams.orders(listed, half, seed)
    quotes = streams.market_data(listed, half, seed)
    outputs = rejected * streams.RESULT_BYTES
    names, counts = ("Orders", "Market Data"), (half, half)
    first = {"Market Data": streams.quotes_of(listed)}
    return Load(APPS / "market_spread", names, [framed, quotes], counts, "bytes", outputs, first)


def all_rejected(messages: int, seed: int = 7) -> Load:
    """As `market_spread`, with quotes that let all orders be rejected."""
    load, listed, half = market_spread(messages, seed), streams.symbols(), messages // 2
    quotes = [streams.MARKET.pack(42, 2, symbol, streams.TIME, 100.0, 101.0) for symbol in listed]
    data = b"".join(random.Random(seed).choices(quotes, k=half))
    return dataclasses.replace(
        load,
        inputs=[load.inputs[0], data],
        outputs=half * streams.RESULT_BYTES,
        first={"Market Data": quotes},
    )


def uncounted(load: Load) -> Load:
    """The *load* of Market Spread for an engine that collects no figures."""
    return dataclasses.replace(load, app=BENCHMARKS / "uncounted")


def word_count(messages: int, seed: int = 7) -> Load:
    """Lines of ten words."""
    framed, words = streams.lines(messages, seed)
    return Load(APPS / "word_count", ["Split and Count"], [framed], [messages], "lines", words)


def keyed(messages: int, keys: int, size: int = 13, hot: float = 0.0, seed: int = 7) -> Load:
    """Messages of *keys* keys; each tenth asks for an output.

    Key 0 gets the part *hot* of them besides its share of the rest, of which all get alike.
    """
    weights = [hot + (1 - hot) / keys, *[(1 - hot) / keys] * (keys - 1)] if hot else None
    chosen = random.Random(seed).choices(range(keys), weights, k=messages)
    framed = streams.keyed(chosen, asks_every=10, size=size)
    outputs = (messages + 9) // 10 * streams.COUNT_BYTES
    return Load(BENCHMARKS / "keys", ["in"], [framed], [messages], "bytes", outputs)


def asked(messages: int) -> Load:
    """Texts of ten digits; each comes out as a line."""
    texts = (b"%010d" % number for number in range(messages))
    framed = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    return Load(BENCHMARKS / "asking", ["in"], [framed], [messages], "lines", messages)


def trades(messages: int, seed: int = 7) -> Load:
    """Trades in JSON; one in ten comes out as a line."""
    texts, large = streams.trades(messages, seed)
    framed = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    return Load(BENCHMARKS / "trades", ["in"], [framed], [messages], "lines", large)


def sessions(keys: int, rounds: range, seed: int = 7) -> Load:
    """Sessions of two messages for each of *keys* keys.

    The first message of a session ends the one before it. What is sent first is the rounds 0 and 1,
    of which nothing comes out; then each two rounds have an output for each key.
    """
    framed, messages = streams.sessions(keys, rounds, seed), keys * len(rounds)
    outputs = messages // 2 * streams.COUNT_BYTES
    return Load(BENCHMARKS / "sessions", ["in"], [framed], [messages], "bytes", outputs)


def joined(messages: int, seed: int = 7) -> Load:
    """Half trades, half quotes; each trade comes out."""
    listed, half = streams.symbols(), messages // 2
    framed = [streams.counted_trades(listed, half, seed), streams.prices(listed, half, seed)]
    outputs = half * streams.COUNT_BYTES
    names = ("trades", "quotes")
    return Load(BENCHMARKS / "joining", names, framed, (half, half), "bytes", outputs)


def each_key_once(keys: int) -> Load:
    """One message for each of *keys* keys; the last one asks for an output."""
    framed = streams.keyed(range(keys - 1, -1, -1), asks_every=keys)
    return Load(BENCHMARKS / "keys", ["in"], [framed], [keys], "bytes", streams.COUNT_BYTES)
