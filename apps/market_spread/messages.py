"""The messages of Market Spread and their binary formats, as in Wallaroo's example.

All numbers are big-endian. Every message is sent in a frame: its length as an unsigned 32-bit
integer, followed by the message.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import NamedTuple

ORDER = struct.Struct(">BBI6s4sdd21s")
"""FIX type 1, side, account, order id, symbol, quantity, price, transact time: 53 bytes."""
MARKET_DATA = struct.Struct(">B4s21sdd")
"""FIX type 2, symbol, transact time, bid, offer: 42 bytes."""
ORDER_RESULT = struct.Struct(">BI6s4sddddQ")
"""Side, account, order id, symbol, quantity, price, last bid, last offer, time: 55 bytes."""
FRAME = struct.Struct(">I")

ORDER_TYPE, MARKET_DATA_TYPE = 1, 2
BUY, SELL = 1, 2


class MarketSpreadError(Exception):
    """A message does not have the format of its source."""


class Order(NamedTuple):
    """An order for shares of one symbol."""

    fix_type: int
    side: int
    account: int
    order_id: bytes
    symbol: bytes
    quantity: float
    price: float
    transact_time: bytes


class MarketData(NamedTuple):
    """A quote for one symbol."""

    fix_type: int
    symbol: bytes
    transact_time: bytes
    bid: float
    offer: float

    @property
    def mid(self) -> float:
        """The mean of bid and offer."""
        return (self.bid + self.offer) / 2.0


class OrderResult(NamedTuple):
    """A rejected order, with the quote that caused its rejection."""

    order: Order
    bid: float
    offer: float
    timestamp: int
    """Time of the rejection, in 1/100,000 seconds since the Unix epoch."""


# like _make, but without checking the length, which the formats determine
_order_of = partial(tuple.__new__, Order)
_quote_of = partial(tuple.__new__, MarketData)


def padded(symbol: bytes) -> bytes:
    """Pad *symbol* to four bytes with spaces on the left, as in the keys.

    Example:
        >>> padded(b"T   "), padded(b"T"), padded(b"AAPL")
        (b'   T', b'   T', b'AAPL')
    """
    return symbol.strip(b" \0").rjust(4)


def parse_order(bs: bytes) -> Order:
    """Parse the payload *bs* as an order.

    Raises:
        MarketSpreadError: It is not an order.
    """
    try:
        order = _order_of(ORDER.unpack(bs))
    except struct.error:
        raise _format_error(ORDER, bs) from None
    if order.fix_type != ORDER_TYPE:
        raise _format_error(ORDER, bs)
    return order


def parse_market_data(bs: bytes) -> MarketData:
    """Parse the payload *bs* as market data.

    Raises:
        MarketSpreadError: It is not market data.
    """
    try:
        quote = _quote_of(MARKET_DATA.unpack(bs))
    except struct.error:
        raise _format_error(MARKET_DATA, bs) from None
    if quote.fix_type != MARKET_DATA_TYPE:
        raise _format_error(MARKET_DATA, bs)
    return quote


def pack_result(result: OrderResult) -> bytes:
    """Encode *result* as a frame."""
    (_, side, account, order_id, symbol, quantity, price, _), bid, offer, timestamp = result
    payload = ORDER_RESULT.pack(
        side, account, order_id, symbol, quantity, price, bid, offer, timestamp
    )
    return FRAME.pack(len(payload)) + payload


def _format_error(expected: struct.Struct, bs: bytes) -> MarketSpreadError:
    name = "an order" if expected is ORDER else "market data"
    fix_type = f"FIX type {bs[0]}" if bs else "no FIX type"
    return MarketSpreadError(
        f"expected {name} of {expected.size} bytes, but got {len(bs)} bytes with {fix_type}. "
        "Are the senders connected to the wrong sources?"
    )
