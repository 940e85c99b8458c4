"""Market Spread: its bytes, its rejections, and where the application it comes from was wrong."""

from __future__ import annotations

import importlib
import struct
from typing import Any

import pytest

from tests.helpers import MARKET_SPREAD, framing_of
from wallaroo.errors import WallarooError
from wallaroo.testing import Simulation, load, simulate

TIME = b"20160902-15:47:52.000"


def order(symbol: bytes = b"AAPL", order_id: bytes = b"000001") -> tuple[str, bytes]:
    payload = struct.pack(">BBI6s4sdd21s", 1, 2, 12, order_id, symbol, 100.0, 5.25, TIME)
    return ("Orders", payload)


def quote(bid: float, offer: float, symbol: bytes = b"AAPL") -> tuple[str, bytes]:
    return ("Market Data", struct.pack(">B4s21sdd", 2, symbol, TIME, bid, offer))


def run(*messages: tuple[str, bytes]) -> Simulation:
    return simulate(load(MARKET_SPREAD), messages)


def rejected(*messages: tuple[str, bytes]) -> int:
    return len(run(*messages).outputs)


def test_the_messages_have_the_bytes_of_the_original() -> None:
    load(MARKET_SPREAD)
    messages = importlib.import_module("messages")
    assert (messages.ORDER.format, messages.ORDER.size) == (">BBI6s4sdd21s", 53)
    assert (messages.MARKET_DATA.format, messages.MARKET_DATA.size) == (">B4s21sdd", 42)
    assert (messages.ORDER_RESULT.format, messages.ORDER_RESULT.size) == (">BI6s4sddddQ", 55)


def test_a_rejection_goes_out_as_a_frame_of_59_bytes() -> None:
    (output,) = run(quote(5.0, 5.5), order()).outputs
    assert len(output) == 59
    clock = struct.unpack(">Q", output[-8:])
    assert output == struct.pack(
        ">IBI6s4sddddQ", 55, 2, 12, b"000001", b"AAPL", 100.0, 5.25, 5.0, 5.5, *clock
    )


def test_an_order_is_decoded_from_its_places() -> None:
    load(MARKET_SPREAD)
    decoded = importlib.import_module("messages").parse_order(order(b"   T")[1])
    assert (decoded.side, decoded.account, decoded.order_id) == (2, 12, b"000001")
    assert (decoded.symbol, decoded.quantity, decoded.price) == (b"   T", 100.0, 5.25)
    assert decoded.transact_time == TIME


def test_sources_come_in_the_order_orders_then_market_data() -> None:
    application = load(MARKET_SPREAD, ["--in", "a:1,b:2", "--out", "c:3"])
    assert [(s.name, s.where) for s in application.sources] == [
        ("Orders", "a:1"),
        ("Market Data", "b:2"),
    ]
    assert [s.where for s in application.sinks] == ["c:3"]
    assert all(framing_of(s).length_fmt == ">I" for s in application.sources)


def test_an_order_before_the_first_quote_is_rejected_with_prices_of_zero() -> None:
    (output,) = run(order()).outputs
    assert struct.unpack(">dd", output[-24:-8]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("bid", "offer", "rejects"),
    [
        (5.0, 5.25, True),  # wide as an amount and as a part of the price
        (100.0, 100.0625, True),  # wide as an amount alone
        (0.25, 0.28125, True),  # wide as a part of the price alone
        (100.0, 100.03125, False),
        (5.0, 5.0, False),
        (0.0, 0.0, True),  # no price at all
    ],
)
def test_a_wide_spread_rejects(bid: float, offer: float, rejects: bool) -> None:
    assert rejected(quote(bid, offer), order()) == rejects


def test_only_the_last_quote_of_a_symbol_counts() -> None:
    narrow, wide = quote(100.0, 100.03125), quote(100.0, 101.0)
    assert rejected(wide, narrow, order()) == 0
    assert rejected(narrow, wide, order()) == 1
    assert rejected(wide, order(), narrow, order(), wide, order()) == 2


def test_a_quote_tells_nothing_of_other_symbols() -> None:
    assert rejected(quote(100.0, 100.03125, b"AAPL"), order(b"  AA")) == 1


@pytest.mark.parametrize("symbol", [b"   T", b"T   ", b"T\0\0\0", b" T  ", b"\0\0\0T"], ids=repr)
def test_a_symbol_finds_its_entity_however_it_is_padded(symbol: bytes) -> None:
    result = run(quote(100.0, 100.03125, b"   T"), order(symbol))
    assert result.outputs == []
    assert result.unknown_keys == []
    assert list(result.state["symbol-data"]) == [b"   T"]


def test_a_symbol_that_is_not_listed_is_dropped_and_counted() -> None:
    result = run(order(b"ZZZZ"), quote(1.0, 2.0, b"ZZZZ"), order())
    assert result.unknown_keys == [("symbol-data", b"ZZZZ")] * 2
    assert result.set_aside == []
    assert len(result.outputs) == 1


def test_senders_the_wrong_way_round_are_told_so_in_a_sentence() -> None:
    result = run(("Orders", quote(5.0, 5.5)[1]), ("Market Data", order()[1]), order())
    assert [(pipeline, step) for pipeline, step, _, _ in result.set_aside] == [
        ("Orders", "decoder"),
        ("Market Data", "decoder"),
    ]
    for _, _, _, error in result.set_aside:
        assert "Are the senders connected to the wrong sources?" in str(error)
    assert "expected an order of 53 bytes, but got 42 bytes with FIX type 2" in str(
        result.set_aside[0][3]
    )
    assert len(result.outputs) == 1


@pytest.mark.parametrize("payload", [b"", b"\x01", order()[1][:-1], order()[1] + b"x"], ids=len)
def test_an_order_of_a_wrong_length_is_set_aside(payload: bytes) -> None:
    result = run(("Orders", payload))
    assert len(result.set_aside) == 1
    assert type(result.set_aside[0][3]).__name__ == "MarketSpreadError"


def test_there_are_350_symbols_of_four_bytes() -> None:
    keys: Any = load(MARKET_SPREAD).partitions["symbol-data"].keys
    assert len(keys) == 350
    assert {len(key) for key in keys} == {4}
    assert b"   T" in keys


def test_one_address_for_two_sources_is_an_error_with_a_sentence() -> None:
    with pytest.raises(WallarooError, match=r"--in has 1 address.*address number 2"):
        load(MARKET_SPREAD, ["--in", "a:1", "--out", "c:3"])


def test_generated_messages_are_those_of_their_seed() -> None:
    load(MARKET_SPREAD)
    rounds = importlib.import_module("generate").rounds
    assert list(rounds(3_000, 7)) == list(rounds(3_000, 7))
    assert list(rounds(3_000, 7)) != list(rounds(3_000, 8))


def test_as_many_messages_are_generated_as_asked_for() -> None:
    load(MARKET_SPREAD)
    rounds = importlib.import_module("generate").rounds
    for wanted in (1, 350, 351, 5_000):
        assert sum(len(payloads) for _, payloads in rounds(wanted, 7)) == wanted


def test_generated_quotes_move_symbols_in_and_out_of_rejection() -> None:
    load(MARKET_SPREAD)
    unpack = importlib.import_module("messages").MARKET_DATA.unpack
    rejects: dict[bytes, bool] = {}
    into = out_of = 0
    for source, payloads in importlib.import_module("generate").rounds(20_000, 7):
        for payload in payloads if source == "Market Data" else ():
            _, symbol, _, bid, offer = unpack(payload)
            now = offer - bid >= 0.05 or (offer - bid) / ((bid + offer) / 2) >= 0.05
            into += rejects.get(symbol, now) is False and now
            out_of += rejects.get(symbol, now) is True and not now
            rejects[symbol] = now
    assert into > 100
    assert out_of > 100


def test_the_demo_expects_what_the_application_makes() -> None:
    application = load(MARKET_SPREAD)
    demo = importlib.import_module("demo")
    rounds = list(demo.rounds(8_000, 7))
    messages = [(source, payload) for source, payloads in rounds for payload in payloads]
    result = simulate(application, messages)
    expected = [output for turn in demo.expected(rounds) for output in turn]
    assert [demo.comparable(output) for output in result.outputs] == expected
    assert 0 < len(expected) < 4_000
    assert (result.set_aside, result.unknown_keys) == ([], [])
