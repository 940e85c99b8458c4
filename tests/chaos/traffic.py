"""What is sent to the applications, and what their outputs tell of it, in terms of the ledger."""

from __future__ import annotations

import importlib
import threading
import zlib
from string import ascii_lowercase
from typing import Any

from tests.chaos.ledger import Ledger
from tests.chaos.turn import FILES, MARKET_SPREAD, MEETING, PARTITIONS, WORD_COUNT
from tests.helpers import ROOT
from wallaroo.testing import load

_MARKET_SPREAD = ROOT / "apps" / "market_spread"


class Traffic:
    """Of applications that are made for the ledger: a message has its key and its number."""

    def message(self, ledger: Ledger, name: str) -> tuple[bytes, bytes]:
        """The next message of *name*, which counts as sent: the key of its record, and itself."""
        return name.encode(), ledger.next(name)

    def quote(self, ledger: Ledger, name: str) -> tuple[bytes, bytes]:
        """The same for the second source of an application that has one."""
        raise NotImplementedError

    def entries(self, output: bytes) -> bytes:
        """The entries for the ledger of *output*."""
        return output


class WordCountTraffic(Traffic):
    """Lines of two words, each a key of the ledger: the n-th count of a word must be n."""

    def message(self, ledger: Ledger, name: str) -> tuple[bytes, bytes]:
        """A line with the two words of *name*, which begin with different letters."""
        start = zlib.crc32(name.encode())
        words = [f"{ascii_lowercase[(start + step) % 26]}{name}" for step in (0, 1)]
        for word in words:
            ledger.next(word)
        return words[0].encode(), " ".join(words).encode()

    def entries(self, output: bytes) -> bytes:
        """The count is the number of the message, as only the state knows it."""
        word, _, count = output.split()
        return b"%s %s %s" % (word, count, count)


class MarketSpreadTraffic(Traffic):
    """Orders with numbers, and quotes that make the application reject all of them.

    The bid of the n-th quote of a symbol is n, so that a result tells which quotes the state has
    seen: all up to this one. A bid that is lower than one before counts as doubled.
    """

    def __init__(self) -> None:
        load(_MARKET_SPREAD)
        self._messages: Any = importlib.import_module("messages")
        symbols = (_MARKET_SPREAD / "symbols.txt").read_bytes().split()
        self._symbols = [self._messages.padded(symbol) for symbol in symbols]
        self._naming = threading.Lock()
        self._of_names: dict[str, bytes] = {}
        self._bids: dict[bytes, int] = {}

    def message(self, ledger: Ledger, name: str) -> tuple[bytes, bytes]:
        """The next order for the symbol of *name*."""
        symbol = self._symbol(name)
        _, number = ledger.next(symbol.decode().strip()).split()
        packed = self._messages.ORDER.pack(
            *(self._messages.ORDER_TYPE, self._messages.BUY, 1, number.rjust(6, b"0"), symbol),
            *(float(number), 1.0, b"20260101-00:00:00.000"),
        )
        return symbol, packed

    def quote(self, ledger: Ledger, name: str) -> tuple[bytes, bytes]:
        """The next quote for the symbol of *name*."""
        symbol = self._symbol(name)
        _, number = ledger.next(_quotes_of(symbol).decode()).split()
        bid = float(number)
        packed = self._messages.MARKET_DATA.pack(
            self._messages.MARKET_DATA_TYPE, symbol, b"20260101-00:00:00.000", bid, 2 * bid
        )
        return symbol, packed

    def entries(self, output: bytes) -> bytes:
        """The order's, and those of the quotes that it is the first to have been checked with."""
        frame = self._messages.FRAME.size
        fields = self._messages.ORDER_RESULT.unpack(output[frame:])
        number, symbol, bid = int(fields[2]), fields[3], int(fields[6])
        last = self._bids.get(symbol, 0)
        self._bids[symbol] = max(bid, last)
        quotes = [bid] if bid < last else range(last + 1, bid + 1)
        seen = [(symbol.strip(), number), *((_quotes_of(symbol), quote) for quote in quotes)]
        return b",".join(b"%s %d %d" % (key, count, count) for key, count in seen)

    def _symbol(self, name: str) -> bytes:
        with self._naming:  # each sender is a thread
            return self._of_names.setdefault(name, self._symbols[len(self._of_names)])


def traffic_of(application: str) -> Traffic:
    """What is sent to the application of this name."""
    from tests.chaos.logs import FilesTraffic, JoinTraffic, PartitionsTraffic

    kinds = {
        WORD_COUNT: WordCountTraffic,
        MARKET_SPREAD: MarketSpreadTraffic,
        PARTITIONS: PartitionsTraffic,
        FILES: FilesTraffic,
        MEETING: JoinTraffic,
    }
    return kinds.get(application, Traffic)()


def _quotes_of(symbol: bytes) -> bytes:
    return b"quotes-of-" + symbol.strip()
