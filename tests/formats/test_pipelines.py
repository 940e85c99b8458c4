"""Codecs are used like decorated functions, in all three generations of the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import wallaroo
from tests.formats.kinds import ORDER_PROTO, TRADE, Leg, Line, Order, Trade, TradeModel, TradeStruct
from tests.formats.registry import Registry
from wallaroo.api.functions import Decoder, Encoder
from wallaroo.api.places import place_of
from wallaroo.cli.main import main
from wallaroo.codecs import (
    SchemaRegistry,
    SchemaRegistryError,
    avro_decoder,
    avro_encoder,
    csv_decoder,
    csv_encoder,
    json_decoder,
    json_encoder,
    msgpack_decoder,
    msgpack_encoder,
    protobuf_decoder,
    protobuf_encoder,
)
from wallaroo.testing import simulate

PAYLOADS = [b'{"symbol": "A", "price": 1.5}', b'{"symbol": "A", "price": 2.5}']
BAD = b'{"symbol": "A", "price": "high"}'
TOTALS = [b'["A",1.5]', b'["A",4.0]']


class Total:
    def __init__(self) -> None:
        self.price = 0.0


@wallaroo.state_computation(name="total", state=Total)
def total(trade: Any, entity: Total) -> tuple[str, float]:
    entity.price += trade.price
    return trade.symbol, entity.price


@wallaroo.key_extractor
def symbol(trade: Any) -> str:
    return str(trade.symbol)


class TotalClass:
    def name(self) -> str:
        return "total"

    def compute(self, trade: Any, entity: Total) -> tuple[tuple[str, float], bool]:
        entity.price += trade.price
        return (trade.symbol, entity.price), True


class BySymbol:
    def partition(self, trade: Any) -> str:
        return str(trade.symbol)


def classes(decoder: Any, encoder: Any) -> Any:
    builder = wallaroo.ApplicationBuilder("Totals")
    builder.new_pipeline("trades", wallaroo.TCPSourceConfig("", 7010, decoder))
    builder.to_state_partition(TotalClass(), Total, "totals", BySymbol())
    builder.to_sink(wallaroo.TCPSinkConfig("", 7002, encoder))
    return builder.build()


def decorators(decoder: Any, encoder: Any) -> Any:
    builder = wallaroo.ApplicationBuilder("Totals")
    builder.new_pipeline("trades", wallaroo.TCPSourceConfig("", 7010, decoder))
    builder.to_state_partition(total, Total, "totals", symbol)
    builder.to_sink(wallaroo.TCPSinkConfig("", 7002, encoder))
    return builder.build()


def pipelines(decoder: Any, encoder: Any, source: Any = None) -> Any:
    source = source or wallaroo.TCPSourceConfig("", 7010, decoder)
    totals = wallaroo.source("trades", source).key_by(symbol).to(total)
    sink = totals.to_sink(wallaroo.TCPSinkConfig("", 7002, encoder))
    return wallaroo.build_application("Totals", sink)


@pytest.mark.parametrize("kind", [Trade, TradeStruct, TradeModel])
@pytest.mark.parametrize("generation", [classes, decorators, pipelines])
def test_a_generation(generation: Any, kind: Any) -> None:
    application = generation(json_decoder(kind), json_encoder())
    result = simulate(application, [("trades", payload) for payload in (BAD, *PAYLOADS)])
    assert result.outputs == TOTALS
    ((_, step, payload, error),) = result.set_aside
    assert (step, payload) == ("decoder", BAD)
    assert "$.price" in str(error)


@pytest.mark.parametrize(
    "source",
    [
        lambda decoder: wallaroo.TCPSourceConfig("", 7010, decoder, framing="lines"),
        lambda decoder: wallaroo.HTTPSourceConfig("", 7010, decoder),
        lambda decoder: wallaroo.FileSourceConfig("trades", decoder, framing="lines"),
        lambda decoder: wallaroo.KafkaSourceConfig("trades", "localhost", decoder),
    ],
)
def test_a_source_decides_on_framing(source: Any) -> None:
    application = pipelines(None, json_encoder(), source(json_decoder(Trade)))
    assert simulate(application, [("trades", payload) for payload in PAYLOADS]).outputs == TOTALS


def test_a_decoder_says_how_frames_look() -> None:
    decoder = json_decoder(Trade, header_length=2, length_fmt=">H")
    assert (decoder.header_length, decoder.length_fmt) == (2, ">H")
    assert isinstance(decoder, Decoder)
    assert isinstance(decoder, wallaroo.Decoder)
    assert isinstance(json_encoder(), Encoder)


def test_a_codec_has_the_place_that_asked_for_it() -> None:
    for made in (json_decoder(Trade), json_encoder(), csv_decoder(), protobuf_decoder(Order)):
        assert Path(place_of(made).file).name == "test_pipelines.py"
    assert json_decoder(Trade).__name__ == "json_decoder(Trade)"  # type: ignore[attr-defined]


ROWS = [
    (json_encoder(), json_decoder(Trade)),
    (msgpack_encoder(), msgpack_decoder(Trade)),
    (avro_encoder(TRADE), avro_decoder(TradeStruct, schema=TRADE)),
    (csv_encoder(["symbol", "price"]), csv_decoder(TradeStruct, header=True)),
]


@pytest.mark.parametrize(("encode", "decode"), ROWS, ids=lambda codec: codec.__name__)
def test_every_format_goes_through_a_state(encode: Any, decode: Any) -> None:
    sent = [("trades", encode(Trade("A", price))) for price in (1.5, 2.5)]
    if decode.__name__.startswith("csv"):
        sent.insert(0, ("trades", b"symbol,price"))
    result = simulate(pipelines(decode, json_encoder()), sent)
    assert result.outputs == TOTALS
    assert not result.set_aside


@wallaroo.computation(name="longest")
def longest(order: Any) -> Any:
    return max(order.lines, key=lambda line: len(line.item))


def test_protobuf_goes_through_a_pipeline() -> None:
    source = wallaroo.TCPSourceConfig("", 7010, protobuf_decoder(Order))
    sink = wallaroo.TCPSinkConfig("", 7002, protobuf_encoder())
    application = wallaroo.build_application(
        "Longest", wallaroo.source("orders", source).to(longest).to_sink(sink)
    )
    order = Order(lines=[Line(item="nut"), Line(item="bolt", count=2)])
    (output,) = simulate(application, [("orders", order.SerializeToString())]).outputs
    assert Line.FromString(output) == Line(item="bolt", count=2)


def test_a_simulation_does_not_wait_for_a_registry() -> None:
    with Registry() as gone:
        pass
    registry = SchemaRegistry(gone.url)
    application = pipelines(avro_decoder(Trade, registry=registry), json_encoder())
    result = simulate(application, [("trades", b"\0\0\0\0\1payload")])
    ((_, step, _, error),) = result.set_aside
    assert step == "decoder"
    assert isinstance(error, SchemaRegistryError)


def test_a_registry_is_not_asked_before_the_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Registry() as server:
        server.add("trades-value", json.dumps(TRADE))
        server.add("orders-value", ORDER_PROTO, "PROTOBUF")
        (tmp_path / "application.py").write_text(f"URL = {server.url!r}\n" + APPLICATION)
        monkeypatch.chdir(tmp_path)
        for command in (["check"], ["graph", "--format", "mermaid"]):
            done = CliRunner().invoke(main, [*command, "application.py"])
            assert done.exit_code == 0, done.output
        assert not server.asked


APPLICATION = """
import wallaroo
from wallaroo.codecs import SchemaRegistry, avro_decoder, json_encoder

REGISTRY = SchemaRegistry(URL)


def application_setup(args):
    trades = wallaroo.TCPSourceConfig("127.0.0.1", 7010, avro_decoder(registry=REGISTRY))
    encode = json_encoder(registry=REGISTRY, subject="trades-value")
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)
    return wallaroo.build_application("Trades", wallaroo.source("trades", trades).to_sink(sink))
"""


def test_a_package_that_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for package in ("msgspec", "fastavro"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    for codec, package in ((json_decoder, "msgspec"), (avro_decoder, "fastavro")):
        expected = rf"requires {package}: install it with `pip install 'wallaroo\[codecs\]'`"
        with pytest.raises(ModuleNotFoundError, match=expected):
            codec()
    assert csv_decoder()(b"a,b") == ["a", "b"]  # needs neither


def test_nothing_is_called_between_a_pipeline_and_msgspec() -> None:
    for codec, kind in (
        (json_encoder(), msgspec.json.Encoder),
        (msgpack_encoder(), msgspec.msgpack.Encoder),
        (msgpack_decoder(Leg), msgspec.msgpack.Decoder),
    ):
        assert isinstance(getattr(codec.function, "__self__", None), kind)
