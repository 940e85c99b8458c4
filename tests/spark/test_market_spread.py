"""Market Spread on Spark, over real sockets, against the oracle."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.helpers import wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.run.background_run import BackgroundRun
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

Round = tuple[str, list[bytes]]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    load(APPS / "market_spread")
    return importlib.import_module("demo")


class Spread:
    """A running Market Spread."""

    def __init__(self, running: BackgroundRun, receiver: Receiver) -> None:
        self.running = running
        self.receiver = receiver
        self._accepted = dict.fromkeys(running.sources, 0)

    def send_in_turns(self, rounds: list[Round]) -> None:
        """Send each round when the last is accepted, so that the order of arrival is known."""
        for source, payloads in rounds:
            send(self.running.sources[source], payloads)
            self._accepted[source] += len(payloads)
            self.running.wait_until_accepted(source, self._accepted[source])


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    state = tmp_path_factory.mktemp("state")
    with (
        Receiver("frames") as receiver,
        run(APPS / "market_spread", receiver, state, sources=2) as running,
    ):
        yield Spread(running, receiver)
        assert running.stop() == 0


def test_interleaved_streams_give_the_oracles_results(spread: Spread, demo: ModuleType) -> None:
    rounds: list[Round] = list(demo.generate.rounds(20_000, seed=11, size=97))
    spread.send_in_turns(rounds)
    messages = [(source, p) for source, payloads in rounds for p in payloads]
    due = simulate(load(APPS / "market_spread"), messages).outputs
    received = spread.receiver.wait_for(len(due))
    assert len(due) > 1_000
    assert _by_symbol(demo, received) == _by_symbol(demo, due)


def test_senders_the_wrong_way_round_are_told_so(spread: Spread) -> None:
    quote = struct.pack(">B4s21sdd", 2, b"AAPL", b"20171207-15:47:52.000", 10.0, 10.01)
    spread.send_in_turns([("Orders", [quote] * 5)])
    event = spread.running.wait_for_event("message set aside", PATIENCE_S)
    assert event["pipeline"] == "Orders"
    assert "connected to the wrong sources" in event["error"]
    assert event["place"].startswith("messages.py:")


def test_an_unknown_symbol_is_dropped_and_said_once(spread: Spread) -> None:
    order = struct.pack(
        ">BBI6s4sdd21s", 1, 1, 7, b"000001", b"ZZZZ", 1.0, 1.0, b"20171207-15:47:52.000"
    )
    for _ in range(3):
        spread.send_in_turns([("Orders", [order])])
    assert spread.running.client is not None
    client = spread.running.client
    event = spread.running.wait_for_event("unknown key dropped", PATIENCE_S)
    assert (event["state"], event["key"]) == ("symbol-data", "b'ZZZZ'")
    wait_until(lambda: client.status().unknown_key == 3, "the count of unknown keys")
    said = [e for e in spread.running.events if e["event"] == "unknown key dropped"]
    assert len(said) == 1


def _by_symbol(demo: ModuleType, outputs: list[bytes]) -> dict[bytes, list[bytes]]:
    symbols: dict[bytes, list[bytes]] = {}
    for output in outputs:
        symbols.setdefault(demo.key(output), []).append(demo.comparable(output))
    return symbols
