"""The messages of Market Spread and their bytes, those of Wallaroo's own example.

All numbers are big-endian. Every message travels in a frame: its length as an unsigned 32-bit
integer, then as many bytes.
"""

from __future__ import annotations

import struct

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
    """A message that is not what its source takes."""


class Order:
    """An order for shares of one symbol."""

    __slots__ = ("account", "order_id", "price", "quantity", "side", "symbol", "transact_time")

    def __init__(
        self,
        side: int,
        account: int,
        order_id: bytes,
        symbol: bytes,
        quantity: float,
        price: float,
        transact_time: bytes,
    ) -> None:
        self.side = side
        self.account = account
        self.order_id = order_id
        self.symbol = symbol
        self.quantity = quantity
        self.price = price
        self.transact_time = transact_time


class MarketData:
    """A quote for one symbol."""

    __slots__ = ("bid", "mid", "offer", "symbol", "transact_time")

    def __init__(self, symbol: bytes, transact_time: bytes, bid: float, offer: float) -> None:
        self.symbol = symbol
        self.transact_time = transact_time
        self.bid = bid
        self.offer = offer
        self.mid = (bid + offer) / 2.0


class OrderResult:
    """A rejected order, with the quote that it was rejected by."""

    __slots__ = ("bid", "offer", "order", "timestamp")

    def __init__(self, order: Order, bid: float, offer: float, timestamp: int) -> None:
        self.order = order
        self.bid = bid
        self.offer = offer
        self.timestamp = timestamp


def padded(symbol: bytes) -> bytes:
    """*symbol* as the keys have it: four bytes, to the right, behind spaces.

    Example:
        >>> padded(b"T   "), padded(b"T"), padded(b"AAPL")
        (b'   T', b'   T', b'AAPL')
    """
    return symbol.strip(b" \0").rjust(4)


def parse_order(bs: bytes) -> Order:
    """The order in the payload *bs*.

    Raises:
        MarketSpreadError: It is no order.
    """
    if bs[:1] != b"\x01" or len(bs) != ORDER.size:
        raise _wrong(ORDER, bs)
    _, side, account, order_id, symbol, quantity, price, transact_time = ORDER.unpack(bs)
    return Order(side, account, order_id, padded(symbol), quantity, price, transact_time)


def parse_market_data(bs: bytes) -> MarketData:
    """The quote in the payload *bs*.

    Raises:
        MarketSpreadError: It is no market data.
    """
    if bs[:1] != b"\x02" or len(bs) != MARKET_DATA.size:
        raise _wrong(MARKET_DATA, bs)
    _, symbol, transact_time, bid, offer = MARKET_DATA.unpack(bs)
    return MarketData(padded(symbol), transact_time, bid, offer)


def pack_result(result: OrderResult) -> bytes:
    """*result* as a frame."""
    order = result.order
    payload = ORDER_RESULT.pack(
        order.side,
        order.account,
        order.order_id,
        order.symbol,
        order.quantity,
        order.price,
        result.bid,
        result.offer,
        result.timestamp,
    )
    return FRAME.pack(len(payload)) + payload


def _wrong(due: struct.Struct, bs: bytes) -> MarketSpreadError:
    what = "an order" if due is ORDER else "market data"
    got = f"FIX type {bs[0]}" if bs else "no FIX type"
    return MarketSpreadError(
        f"{what} of {due.size} bytes is due, and this is {len(bs)} bytes with {got}. "
        "Did you connect the senders the wrong way around?"
    )
