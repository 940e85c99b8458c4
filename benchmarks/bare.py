"""The same work in one Python process without any framework: what one core can do at most.

Reads framed messages from files, keeps its state in a dictionary, writes the results to a file;
the applications' functions are written out by hand in one loop. Prints the seconds it took.

    python -m benchmarks.bare market_spread MARKET ORDERS RESULT
    python -m benchmarks.bare word_count LINES RESULT
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

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
    """Market Spread: the two streams in turns of a thousand."""
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


def word_count(lines_path: Path, result_path: Path) -> None:
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


if __name__ == "__main__":
    started = time.perf_counter()
    paths = [Path(argument) for argument in sys.argv[2:]]
    if sys.argv[1] == "market_spread":
        market_spread(*paths)
    else:
        word_count(*paths)
    print(time.perf_counter() - started)
