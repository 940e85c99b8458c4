"""The same work in one Python process without any framework: what one core can do at most.

Reads framed messages from files, keeps its state in a dictionary, writes the results to a file.
`functions` calls the application's own functions, as we and every other peer do; `by-hand` has what
they do written out in one loop, without decoding into objects. Prints the seconds it took.

    python -m benchmarks.peers.bare functions|by-hand market_spread MARKET ORDERS RESULT
    python -m benchmarks.peers.bare functions|by-hand word_count LINES RESULT
    python -m benchmarks.peers.bare functions keys MESSAGES RESULT
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any

from benchmarks.loads import APPS, BENCHMARKS

_PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_TURN = 1000


def payloads(path: Path) -> Iterator[bytes]:
    """The payloads of a file of frames."""
    data, place = path.read_bytes(), 0
    unpack = Struct(">I").unpack_from
    while place < len(data):
        end = place + 4 + unpack(data, place)[0]
        yield data[place + 4 : end]
        place = end


def market_spread(market_path: Path, orders_path: Path, result_path: Path) -> None:
    """Market Spread, the two streams in turns of a thousand."""
    import application as app

    state: dict[bytes, Any] = defaultdict(app.SymbolData)
    key_of, encode = app.symbol_of.function, app.order_result_encoder.function
    streams: list[tuple[Iterator[bytes], Callable[..., Any], Callable[..., Any]]] = [
        (payloads(path), decoder.function, step.function)
        for path, decoder, step in (
            (market_path, app.market_data_decoder, app.update_market_data),
            (orders_path, app.order_decoder, app.check_order),
        )
    ]
    with result_path.open("wb", 1 << 20) as out:
        while streams:
            for stream in list(streams):
                waiting, decode, compute = stream
                turn = list(itertools.islice(waiting, _TURN))
                for payload in turn:
                    message = decode(payload)
                    output, _ = compute(message, state[key_of(message)])
                    if output is not None:
                        out.write(encode(output))
                if len(turn) < _TURN:
                    streams.remove(stream)


def word_count(lines_path: Path, result_path: Path) -> None:
    """Word Count."""
    import application as app

    state: dict[str, Any] = defaultdict(app.WordTotals)
    decode, split = app.decoder.function, app.split.function
    key_of, compute, encode = (
        app.first_letter.function,
        app.count_word.function,
        app.encoder.function,
    )
    with result_path.open("wb", 1 << 20) as out:
        for payload in payloads(lines_path):
            for word in split(decode(payload)):
                output, _ = compute(word, state[key_of(word)])
                out.write(encode(output))


def keys(messages_path: Path, result_path: Path) -> None:
    """A count for each key."""
    import application as app

    state: dict[int, Any] = defaultdict(app.Count)
    decode, compute = app.decode.function, app.count.function
    key_of, encode = app.key_of.function, app.encode.function
    with result_path.open("wb", 1 << 20) as out:
        for payload in payloads(messages_path):
            message = decode(payload)
            output = compute(message, state[key_of(message)])
            if output is not None:
                out.write(encode(output))


def market_spread_by_hand(market_path: Path, orders_path: Path, result_path: Path) -> None:
    """Market Spread, the two streams in turns of a thousand."""
    market = Struct(">B4s21sdd").unpack
    order, result = Struct(">BBI6s4sdd21s").unpack, Struct(">IBI6s4sddddQ").pack
    state: dict[bytes, tuple[float, float, bool]] = {}
    new, now = (0.0, 0.0, True), time.time
    streams = [payloads(market_path), payloads(orders_path)]
    with result_path.open("wb", 1 << 20) as out:
        write = out.write
        while streams:
            for stream in list(streams):
                number = -1
                for number, payload in zip(range(_TURN), stream, strict=False):  # noqa: B007
                    if payload[0] == 2:
                        _, symbol, _, bid, offer = market(payload)
                        wide = offer - bid
                        rejects = wide >= 0.05 or wide / ((bid + offer) / 2) >= 0.05
                        state[symbol] = (bid, offer, rejects)
                    else:
                        _, side, account, number_, symbol, quantity, price, _ = order(payload)
                        bid, offer, rejects = state.get(symbol, new)
                        if rejects:
                            at = int(now() * 100000)
                            write(
                                result(
                                    55, side, account, number_, symbol,
                                    quantity, price, bid, offer, at,
                                )
                            )  # fmt: skip
                if number < _TURN - 1:
                    streams.remove(stream)


def word_count_by_hand(lines_path: Path, result_path: Path) -> None:
    """Word Count."""
    counts: dict[str, int] = {}
    get = counts.get
    with result_path.open("wb", 1 << 20) as out:
        for payload in payloads(lines_path):
            results = []
            for line in payload.decode().split("\n"):
                for part in line.lower().strip(_PUNCTUATION).split(" "):
                    word = part.strip(_PUNCTUATION)
                    count = counts[word] = get(word, 0) + 1
                    results.append(f"{word} => {count}\n")
            out.write("".join(results).encode())


_BY_NAME: dict[tuple[str, str], Callable[..., None]] = {
    ("functions", "market_spread"): market_spread,
    ("functions", "word_count"): word_count,
    ("functions", "keys"): keys,
    ("by-hand", "market_spread"): market_spread_by_hand,
    ("by-hand", "word_count"): word_count_by_hand,
}

if __name__ == "__main__":
    style, name, *paths = sys.argv[1:]
    sys.path.insert(0, str((BENCHMARKS if name == "keys" else APPS) / name))
    started = time.perf_counter()
    _BY_NAME[style, name](*map(Path, paths))
    print(time.perf_counter() - started)
