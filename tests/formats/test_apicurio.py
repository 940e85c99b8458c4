"""The client and a real registry understand each other."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.formats.apicurio import apicurio
from tests.formats.kinds import ORDER_PROTO, TRADE, Line, Order, Trade
from tests.kafka.artifacts import NotAvailable
from wallaroo.codecs import (
    SchemaRegistry,
    SchemaRegistryError,
    avro_decoder,
    avro_encoder,
    json_decoder,
    json_encoder,
    protobuf_decoder,
    protobuf_encoder,
)
from wallaroo.codecs.waiting import without_waiting

pytestmark = pytest.mark.spark  # starts Java


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with apicurio(tmp_path_factory.mktemp("apicurio")) as url:
            yield url
    except NotAvailable as reason:
        pytest.skip(str(reason))


def test_avro_and_its_versions(url: str) -> None:
    registry, trade = SchemaRegistry(url), Trade("ABC", 1.5)
    looking_up = avro_encoder(TRADE, registry=registry, subject="trades-value")
    with without_waiting(), pytest.raises(SchemaRegistryError, match="404"):
        looking_up(trade)
    registering = avro_encoder(TRADE, registry=registry, subject="trades-value", register=True)
    old = registering(trade)
    assert looking_up(trade) == old
    newer = {
        **TRADE,
        "fields": [*TRADE["fields"], {"name": "note", "type": "string", "default": "none"}],
    }
    writing = avro_encoder(newer, registry=registry, subject="trades-value", register=True)
    new = writing({"symbol": "ABC", "price": 2.5, "note": "new"})
    assert new[:5] != old[:5]
    newest = avro_encoder(registry=SchemaRegistry(url), subject="trades-value")
    assert newest({"symbol": "ABC", "price": 2.5, "note": "new"}) == new
    decode = avro_decoder(schema=newer, registry=SchemaRegistry(url))
    assert decode(old) == {"symbol": "ABC", "price": 1.5, "note": "none"}
    assert decode(new) == {"symbol": "ABC", "price": 2.5, "note": "new"}
    assert avro_decoder(Trade, registry=registry)(old) == trade
    with pytest.raises(ValueError, match="the schema 4000000000, which SchemaRegistry"):
        decode(b"\0" + (4_000_000_000).to_bytes(4, "big") + b"payload")


def test_json(url: str) -> None:
    registry, schema = (
        SchemaRegistry(url),
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
    )
    encode = json_encoder(registry=registry, subject="j-value", schema=schema, register=True)
    decode = json_decoder(Trade, registry=SchemaRegistry(url))
    assert decode(encode(Trade("ABC", 1.5))) == Trade("ABC", 1.5)
    by_newest = json_encoder(registry=SchemaRegistry(url), subject="j-value")
    assert by_newest(Trade("ABC", 1.5)) == encode(Trade("ABC", 1.5))


def test_protobuf(url: str) -> None:
    registry = SchemaRegistry(url)
    encode = protobuf_encoder(
        registry=registry, subject="orders-value", schema=ORDER_PROTO, register=True
    )
    order, line = Order(customer="c", lines=[Line(item="nut")]), Line(item="bolt")
    decode = protobuf_decoder(Order, registry=SchemaRegistry(url))
    assert decode(encode(order)) == order
    newest = protobuf_encoder(registry=SchemaRegistry(url), subject="orders-value")
    assert newest(order) == encode(order)
    with pytest.raises(ValueError, match=r"a shop\.Line of the schema \d+, not a shop\.Order"):
        decode(newest(line))


def test_a_schema_of_another_type_is_refused(url: str) -> None:
    registry = SchemaRegistry(url)
    encode = avro_encoder(json.dumps("string"), registry=registry, subject="texts", register=True)
    with pytest.raises(ValueError, match="of type AVRO, not JSON"):
        json_decoder(registry=registry)(encode("text"))
    with (
        without_waiting(),
        pytest.raises(SchemaRegistryError, match="is of type AVRO; the encoder writes PROTOBUF"),
    ):
        protobuf_encoder(registry=registry, subject="texts")(Line())
