"""Codecs in a run: their messages wait for a schema registry that is away, and none is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.formats.kinds import TRADE, Trade
from tests.formats.registry import Registry
from tests.helpers import wait_until
from tests.spark.harness import PATIENCE_S, Receiver, send
from wallaroo.codecs import avro_encoder
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark
COUNT = 50

APPLICATION = """
from dataclasses import dataclass

import wallaroo
from wallaroo.codecs import SchemaRegistry, avro_decoder, json_encoder


@dataclass
class Trade:
    symbol: str
    price: float


class Total:
    def __init__(self):
        self.price = 0.0


@wallaroo.key_extractor
def symbol(trade):
    return trade.symbol


@wallaroo.state_computation(name="total", state=Total)
def total(trade, entity):
    entity.price += trade.price
    return Trade(trade.symbol, entity.price)


def application_setup(args):
    url, host, port = args
    decoder = avro_decoder(Trade, registry=SchemaRegistry(url))
    trades = wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder))
    sink = wallaroo.TCPSinkConfig(host, port, json_encoder(framing="lines"))
    return wallaroo.build_application("Totals", trades.key_by(symbol).to(total).to_sink(sink))
"""


def test_messages_wait_for_a_registry_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "totals.py").write_text(APPLICATION)
    with Registry() as gone:
        pass
    encode = avro_encoder(TRADE)
    payloads = [b"\0\0\0\0\1" + encode(Trade("A", 1.0)) for _ in range(COUNT)]
    with Receiver("lines") as receiver:
        command = [
            *("run", str(tmp_path / "totals.py"), "--workers", "2", "--function-timeout", "1"),
            *("--state-dir", str(tmp_path / "state"), "--", gone.url),
            *receiver.address.split(":"),
        ]
        with BackgroundRun(command) as running:
            send(running.sources["trades"], [*payloads, b"\0\0\0\0\2", *payloads])
            waiting = lambda: any("messages have waited" in str(e) for e in running.events)  # noqa: E731
            wait_until(waiting, "the line in the log", PATIENCE_S)
            assert not receiver.messages
            with Registry(port=gone.port) as back:
                back.add("trades-value", json.dumps(TRADE))
                lines = receiver.wait_for(2 * COUNT)
            assert running.stop() == 0
    assert [json.loads(line)["price"] for line in lines] == [n + 1.0 for n in range(2 * COUNT)]
    failed = [event for event in running.events if "dead letter" in str(event.get("event", ""))]
    assert len(failed) <= 1  # the message whose schema does not exist
