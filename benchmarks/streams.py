"""Streams whose right results do not depend on how their connections interleave.

Half of the symbols always have a spread that rejects, the others never. So the rejected orders are
known, whatever the order of arrival, once every symbol has had a quote: before its first one, all
of its orders are rejected.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from pathlib import Path

MARKET = struct.Struct(">IB4s21sdd")
ORDER = struct.Struct(">IBBI6s4sdd21s")
RESULT_BYTES = 59
KEYED = struct.Struct(">IQBI")
COUNT_BYTES = 16
TIME = b"20171207-15:47:52.000"


def quotes_of(symbols: list[bytes]) -> list[bytes]:
    """A framed quote of each symbol."""
    return [
        MARKET.pack(42, 2, symbol, TIME, 100.0, 101.0 if number % 2 else 100.01)
        for number, symbol in enumerate(symbols)
    ]


def market_data(symbols: list[bytes], count: int, seed: int) -> bytes:
    """*count* framed quotes: first one of each symbol, then random ones."""
    rng, quotes = random.Random(seed), quotes_of(symbols)
    return b"".join(quotes + rng.choices(quotes, k=max(0, count - len(quotes))))


def orders(symbols: list[bytes], count: int, seed: int) -> tuple[bytes, int]:
    """*count* framed orders of random symbols, and how many of them are rejected."""
    rng = random.Random(seed)
    chosen = rng.choices(range(len(symbols)), k=count)
    framed = [
        ORDER.pack(53, 1, 1 + n % 2, 7, b"%06d" % (n % 1_000_000), symbols[s], 100.0, 100.5, TIME)
        for n, s in enumerate(chosen)
    ]
    return b"".join(framed), sum(s % 2 for s in chosen)


def lines(count: int, seed: int) -> tuple[bytes, int]:
    """*count* framed lines of ten words, and how many words they have."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(5_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    framed: list[bytes] = []
    for _ in range(count):
        line = " ".join(rng.choices(words, weights, k=10)).capitalize().encode() + b"."
        framed.append(len(line).to_bytes(4, "big") + line)
    return b"".join(framed), count * 10


def keyed(keys: Iterable[int], asks_every: int, size: int = 13) -> bytes:
    """A framed message of *size* bytes for each of *keys*.

    The first of each *asks_every* asks for an output.
    """
    pack, rest = KEYED.pack, bytes(size - 13)
    return b"".join(pack(size, key, n % asks_every == 0, n) + rest for n, key in enumerate(keys))


def trades(count: int, seed: int) -> tuple[list[bytes], int]:
    """*count* trades in JSON, of 150 to 170 bytes, and how many of them are large."""
    rng = random.Random(seed)
    counts = [100 * rng.randint(0, 9) for _ in range(count)]
    texts = [
        b'{"number":%d,"symbol":"%s","venue":"XNYS","side":"%s","price":%d.25,"count":%d,'
        b'"at":"2026-03-01T12:00:%02d.123Z","flags":["odd","auction"]}'
        % (n, b"ABCD" if n % 2 else b"EF", b"buy" if n % 3 else b"sell", n % 1000, size, n % 60)
        for n, size in enumerate(counts)
    ]
    return texts, sum(size >= 900 for size in counts)


_SESSION = struct.Struct(">IQQ")
_MINUTE_NS = 60 * 10**9


def sessions(keys: int, rounds: range, seed: int) -> bytes:
    """A framed message of each of *keys* keys in each of *rounds*, of which two are in an hour."""
    order = list(range(keys))
    random.Random(seed).shuffle(order)
    made: list[bytes] = []
    for number in rounds:
        at = (number // 2 * 60 + number % 2 * 5) * _MINUTE_NS
        made += [_SESSION.pack(16, key, at) for key in order]
    return b"".join(made)


def counted_trades(symbols: list[bytes], count: int, seed: int) -> bytes:
    """*count* framed trades of random symbols, numbered."""
    chosen = random.Random(seed).choices(symbols, k=count)
    pack = struct.Struct(">I4sIId").pack
    return b"".join(pack(20, symbol, n, n % 1000, 99.5) for n, symbol in enumerate(chosen))


def prices(symbols: list[bytes], count: int, seed: int) -> bytes:
    """*count* framed prices of random symbols."""
    chosen = random.Random(seed + 1).choices(symbols, k=count)
    pack = struct.Struct(">I4sd21s").pack
    return b"".join(pack(33, symbol, n % 1000 + 0.5, TIME) for n, symbol in enumerate(chosen))


def parts(framed: bytes, count: int) -> list[bytes]:
    """*framed* in *count* parts, frame by frame in turns."""
    if count == 1:
        return [framed]
    frames: list[list[bytes]] = [[] for _ in range(count)]
    place = number = 0
    while place < len(framed):
        end = place + 4 + int.from_bytes(framed[place : place + 4], "big")
        frames[number % count].append(framed[place:end])
        place, number = end, number + 1
    return [b"".join(part) for part in frames]


def symbols() -> list[bytes]:
    """The symbols of Market Spread, padded."""
    listed = Path(__file__).parents[1] / "apps" / "market_spread" / "symbols.txt"
    return [symbol.rjust(4) for symbol in listed.read_bytes().split()]
