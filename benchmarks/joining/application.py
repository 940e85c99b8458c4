"""Joins trades with the last price of their symbol: for measuring what a join costs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import wallaroo

TRADE = struct.Struct(">4sIId")
QUOTE = struct.Struct(">4sd21s")
OUTPUT = struct.Struct(">IId")


class Trade(NamedTuple):
    """A message of the left side."""

    symbol: str
    number: int
    amount: int
    limit: float


class Quote(NamedTuple):
    """A message of the right side."""

    symbol: str
    price: float
    at: bytes


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_trade(payload: bytes) -> Trade:
    """From payload to trade."""
    symbol, number, amount, limit = TRADE.unpack(payload)
    return Trade(symbol.decode(), number, amount, limit)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_quote(payload: bytes) -> Quote:
    """From payload to quote."""
    symbol, price, at = QUOTE.unpack(payload)
    return Quote(symbol.decode(), price, at)


@wallaroo.key_extractor
def symbol_of(message: Trade | Quote) -> str:
    """The key."""
    return message.symbol


@wallaroo.table_join(name="value", how="left")
def value(trade: Trade, quote: Quote | None) -> tuple[int, float]:
    """The number of the trade and its value, 0 without a price."""
    return trade.number, trade.amount * quote.price if quote is not None else 0.0


@wallaroo.encoder
def encode(output: tuple[int, float]) -> bytes:
    """A frame with the number and the value."""
    return OUTPUT.pack(12, *output)


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """One pipeline."""
    left, right = wallaroo.tcp_parse_input_addrs(args)
    trades = wallaroo.source("trades", wallaroo.TCPSourceConfig(*left, decode_trade))
    quotes = wallaroo.source("quotes", wallaroo.TCPSourceConfig(*right, decode_quote))
    joined = trades.key_by(symbol_of).join(quotes.key_by(symbol_of), value)
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return wallaroo.build_application("joining", joined.to_sink(sink))
