"""Generates realistic orders and market data, with random walks of prices and spreads.

The spread of each symbol varies around the limit of five cents, so that its orders are rejected at
some times and not at others. The same seed yields the same messages.

    python generate.py --messages 100000 --seed 7 --orders orders.bin --market-data market.bin
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from messages import (
    BUY,
    FRAME,
    MARKET_DATA,
    MARKET_DATA_TYPE,
    ORDER,
    ORDER_TYPE,
    SELL,
    padded,
)

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WIDEST_CENTS = 9


class Market:
    """Symbols with random prices and spreads.

    Args:
        symbols: The symbols.
        seed: Seed of all randomness.
    """

    def __init__(self, symbols: list[bytes], seed: int) -> None:
        self._random = random.Random(seed)
        self._symbols = [padded(symbol) for symbol in symbols]
        self._cents = [self._random.randrange(500, 50_000) for _ in symbols]
        self._spread = [self._random.randrange(1, _WIDEST_CENTS) for _ in symbols]
        self._orders = 0
        self._millis = 0

    def first_quotes(self) -> list[bytes]:
        """Return payloads with one quote for each symbol."""
        return [self._quote(symbol) for symbol in range(len(self._symbols))]

    def quotes(self, count: int) -> list[bytes]:
        """Return payloads with *count* quotes for random symbols."""
        pick, size = self._random.randrange, len(self._symbols)
        return [self._quote(pick(size)) for _ in range(count)]

    def orders(self, count: int) -> list[bytes]:
        """Return payloads with *count* orders for random symbols."""
        return [self._order() for _ in range(count)]

    def _quote(self, symbol: int) -> bytes:
        step = self._random.choice
        self._cents[symbol] = max(100, self._cents[symbol] + step((-2, -1, 0, 1, 2)))
        spread = self._spread[symbol] + step((-1, 0, 1))
        self._spread[symbol] = spread = min(max(spread, 1), _WIDEST_CENTS)
        bid = self._cents[symbol]
        return MARKET_DATA.pack(
            MARKET_DATA_TYPE, self._symbols[symbol], self._time(), bid / 100, (bid + spread) / 100
        )

    def _order(self) -> bytes:
        pick = self._random.randrange
        symbol = pick(len(self._symbols))
        price = (self._cents[symbol] + pick(-10, 11)) / 100
        self._orders += 1
        return ORDER.pack(
            ORDER_TYPE,
            pick(BUY, SELL + 1),
            pick(1, 1000),
            order_id(self._orders),
            self._symbols[symbol],
            float(pick(1, 21) * 100),
            price,
            self._time(),
        )

    def _time(self) -> bytes:
        self._millis += 1
        seconds, millis = divmod(self._millis, 1000)
        minutes, seconds = divmod(seconds, 60)
        return b"20171207-%02d:%02d:%02d.%03d" % (minutes // 60 % 24, minutes % 60, seconds, millis)


def order_id(number: int) -> bytes:
    """Format *number* as six digits in base 36.

    Example:
        >>> order_id(37)
        b'000011'
    """
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits.encode()


def load_symbols() -> list[bytes]:
    """Return the symbols in `symbols.txt`."""
    return Path(__file__).with_name("symbols.txt").read_bytes().split()


def rounds(messages: int, seed: int, size: int = 2000) -> Iterator[tuple[str, list[bytes]]]:
    """Yield *messages* payloads in rounds of up to *size*: alternately market data and orders.

    Yields pairs of a source's name and its payloads, as two alternating senders would send them.
    """
    market = Market(load_symbols(), seed)
    first = market.first_quotes()[:messages]
    yield ("Market Data", first)
    left, orders_are_next = messages - len(first), True
    while left > 0:
        count = min(size, left)
        if orders_are_next:
            yield ("Orders", market.orders(count))
        else:
            yield ("Market Data", market.quotes(count))
        left -= count
        orders_are_next = not orders_are_next


@click.command()
@click.option("--messages", default=100_000, show_default=True, help="Total number of messages.")
@click.option("--seed", default=7, show_default=True, help="Seed of all randomness.")
@click.option("--orders", type=click.File("wb"), required=True, help="File for framed orders.")
@click.option("--market-data", type=click.File("wb"), required=True, help="File for framed quotes.")
def main(messages: int, seed: int, orders: BinaryIO, market_data: BinaryIO) -> None:
    """Write framed orders and market data to files, for `wallaroo send`."""
    files = {"Orders": orders, "Market Data": market_data}
    counts = dict.fromkeys(files, 0)
    for source, payloads in rounds(messages, seed):
        files[source].write(b"".join(FRAME.pack(len(p)) + p for p in payloads))
        counts[source] += len(payloads)
    click.echo(", ".join(f"{count:,} messages of {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
