"""Market Spread: rejects orders for symbols whose last quote has too wide a spread.

Two pipelines share the state `symbol-data`, keyed by symbol: market data updates the entity of its
symbol, and orders are checked against it. See "Stateful Multi-Stream Processing in Python with
Wallaroo".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import wallaroo
from messages import (
    MarketData,
    Order,
    OrderResult,
    pack_result,
    padded,
    parse_market_data,
    parse_order,
)

MAX_SPREAD = 0.05
"""Spreads of at least this amount, or this fraction of the mid price, cause rejection."""


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """Wire the two pipelines; takes two input addresses (orders, market data) and one output."""
    inputs = wallaroo.tcp_parse_input_addrs(args)
    (order_host, order_port), (market_host, market_port) = inputs[0], inputs[1]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    symbols = sorted(VALID_SYMBOLS)

    builder = wallaroo.ApplicationBuilder("market-spread")
    builder.new_pipeline(
        "Orders", wallaroo.TCPSourceConfig(order_host, order_port, order_decoder)
    ).to_state_partition(
        check_order, SymbolData, "symbol-data", symbol_of, symbols, other_keys="drop"
    ).to_sink(wallaroo.TCPSinkConfig(out_host, out_port, order_result_encoder))
    builder.new_pipeline(
        "Market Data", wallaroo.TCPSourceConfig(market_host, market_port, market_data_decoder)
    ).to_state_partition(
        update_market_data, SymbolData, "symbol-data", symbol_of, symbols, other_keys="drop"
    ).done()
    return builder.build()


def load_valid_symbols() -> frozenset[bytes]:
    """Return the valid symbols, padded."""
    listed = Path(__file__).with_name("symbols.txt").read_bytes()
    return frozenset(padded(symbol) for symbol in listed.split())


VALID_SYMBOLS = load_valid_symbols()


class SymbolData:
    """The last quote of a symbol; before the first one, every order is rejected."""

    __slots__ = ("last_bid", "last_offer", "should_reject_trades")

    def __init__(self) -> None:
        self.last_bid = 0.0
        self.last_offer = 0.0
        self.should_reject_trades = True


frames_decoder = wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)
order_decoder = frames_decoder(parse_order)
market_data_decoder = frames_decoder(parse_market_data)
order_result_encoder = wallaroo.encoder(pack_result)


@wallaroo.partition
def symbol_of(message: Order | MarketData) -> bytes:
    """Return the key of both streams: the symbol, with uniform padding."""
    symbol = message.symbol
    return symbol if symbol in VALID_SYMBOLS else padded(symbol)


@wallaroo.state_computation(name="Update Market Data")
def update_market_data(data: MarketData, state: SymbolData) -> tuple[None, bool]:
    """Store the quote, and whether its spread causes rejection."""
    difference = data.offer - data.bid
    state.last_bid = data.bid
    state.last_offer = data.offer
    # a mid price of zero is not a price: reject, as before the first quote
    state.should_reject_trades = (
        difference >= MAX_SPREAD or data.mid == 0 or difference / data.mid >= MAX_SPREAD
    )
    return (None, True)


@wallaroo.state_computation(name="Check Order")
def check_order(order: Order, state: SymbolData) -> tuple[OrderResult | None, bool]:
    """Reject the order if the spread of the last quote is too wide."""
    if not state.should_reject_trades:
        return (None, False)
    timestamp = int(time.time() * 100000)
    return (OrderResult(order, state.last_bid, state.last_offer, timestamp), False)
