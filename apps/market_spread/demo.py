"""The input of `wallaroo demo market_spread`, and the expected output, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import generate
from messages import FRAME, MARKET_DATA, ORDER, ORDER_RESULT

OUTPUT_FRAMING = "frames"
_CLOCK_BYTES = 8


def rounds(messages: int, seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the payloads to send, in rounds: pairs of a source's name and its payloads."""
    return generate.rounds(messages, seed)


def expected(sent: Iterable[tuple[str, list[bytes]]]) -> Iterator[list[bytes]]:
    """Yield the expected outputs of each round, without the clock field."""
    quotes: dict[bytes, tuple[float, float]] = {}
    for source, payloads in sent:
        results: list[bytes] = []
        for payload in payloads:
            if source == "Market Data":
                _, symbol, _, bid, offer = MARKET_DATA.unpack(payload)
                quotes[symbol] = (bid, offer)
                continue
            _, side, account, order_id, symbol, quantity, price, _ = ORDER.unpack(payload)
            bid, offer = quotes.get(symbol, (0.0, 0.0))
            mid = (bid + offer) / 2
            if mid == 0 or offer - bid >= 0.05 or (offer - bid) / mid >= 0.05:
                result = ORDER_RESULT.pack(
                    side, account, order_id, symbol, quantity, price, bid, offer, 0
                )
                results.append(comparable(FRAME.pack(len(result)) + result))
        yield results


def comparable(output: bytes) -> bytes:
    """Return *output* without its clock field."""
    return output[:-_CLOCK_BYTES]


def key(output: bytes) -> bytes:
    """Return the symbol: outputs of the same symbol are in order."""
    return output[15:19]
