"""What an encoder writes, the decoder of the same type reads, whatever the values."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.kinds import (
    EVERYTHING,
    Everything,
    Filled,
    Leg,
    Line,
    Order,
    Pair,
    Side,
    Spot,
    SpotModel,
    Trade,
    TradeDict,
    TradeModel,
    TradeRow,
    TradeStruct,
)
from wallaroo.codecs import (
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
from wallaroo.errors import WallarooParameterError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**63), 2**63 - 1)
REALS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | INTEGERS | REALS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)
TRADES = st.builds(
    Trade,
    symbol=TEXTS,
    price=REALS,
    side=st.sampled_from(Side),
    legs=st.lists(st.builds(Leg, symbol=TEXTS, amount=INTEGERS)),
    note=st.none() | TEXTS,
)
KINDS: list[tuple[Any, Any]] = [
    (Trade, TRADES),
    (TradeStruct, st.builds(TradeStruct, symbol=TEXTS, price=REALS)),
    (TradeRow, st.builds(TradeRow, symbol=TEXTS, price=REALS, lots=st.none() | INTEGERS)),
    (TradeDict, st.fixed_dictionaries({"symbol": TEXTS, "price": REALS})),
    (TradeModel, st.builds(TradeModel, symbol=TEXTS, price=REALS)),
    (list[Trade], st.lists(TRADES)),
    (
        dict[str, TradeModel],
        st.dictionaries(TEXTS, st.builds(TradeModel, symbol=TEXTS, price=REALS)),
    ),
]


@given(PLAIN)
def test_plain_objects(message: Any) -> None:
    assert json_decoder()(json_encoder()(message)) == message
    assert msgpack_decoder()(msgpack_encoder()(message)) == message


@pytest.mark.parametrize(("kind", "messages"), KINDS, ids=lambda kind: str(kind)[:40])
@given(data=st.data())
def test_types(kind: Any, messages: st.SearchStrategy[Any], data: st.DataObject) -> None:
    message = data.draw(messages)
    assert json_decoder(kind)(json_encoder()(message)) == message
    assert msgpack_decoder(kind)(msgpack_encoder()(message)) == message


@given(
    st.builds(
        Everything,
        flag=st.booleans(),
        number=INTEGERS,
        real=REALS,
        data=st.binary(),
        text=TEXTS,
        side=st.sampled_from(Side),
        items=st.lists(INTEGERS),
        by_name=st.dictionaries(TEXTS, REALS),
        when=st.datetimes(
            datetime.datetime(1900, 1, 1),
            timezones=st.just(datetime.UTC),
        ),
        day=st.dates(),
        amount=st.decimals(-(10**9), 10**9, places=2).map(lambda amount: amount + Decimal(0)),
        id=st.uuids(),
        maybe=st.none() | INTEGERS,
    )
)
def test_avro(message: Everything) -> None:
    encoded = avro_encoder(EVERYTHING)(message)
    assert avro_decoder(Everything, schema=EVERYTHING)(encoded) == message
    plain = avro_decoder(schema=EVERYTHING)(encoded)
    assert avro_encoder(EVERYTHING)(plain) == encoded


@given(st.lists(st.tuples(TEXTS, INTEGERS)), TEXTS)
def test_protobuf(lines: list[tuple[str, int]], customer: str) -> None:
    order = Order(customer=customer, lines=[Line(item=item, count=n) for item, n in lines])
    assert protobuf_decoder(Order)(protobuf_encoder()(order)) == order


@given(st.lists(TEXTS.filter(lambda text: "\0" not in text), min_size=1))
def test_rows_of_texts(row: list[str]) -> None:
    assert csv_decoder()(csv_encoder()(row)) == row
    names = [f"column {number}" for number in range(len(row))]
    named = csv_decoder(names)(csv_encoder(names)(dict(zip(names, row, strict=True))))
    assert named == dict(zip(names, row, strict=True))


@given(TEXTS.filter(lambda text: "\0" not in text), st.floats(), st.none() | INTEGERS)
def test_typed_rows(symbol: str, price: float, count: int | None) -> None:
    row = TradeRow(symbol, price, count)
    back = csv_decoder(TradeRow)(csv_encoder()(row))
    assert back is not None
    expected = row if count is not None else row._replace(lots=1)  # the default of an empty cell
    assert back[::2] == expected[::2]
    assert back.price == price or math.isnan(price)


def test_values_of_a_named_tuple_are_written_as_those_of_other_records() -> None:
    at = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    filled = Filled(Side.BUY, at, datetime.timedelta(hours=30), Decimal("1.10"), b"\0")
    assert csv_decoder(Filled)(csv_encoder()(filled)) == filled


def test_values_in_lists_and_dictionaries_are_written_as_those_of_records() -> None:
    at = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    filled = Filled(Side.BUY, at, datetime.timedelta(hours=30), Decimal("1.10"), b"\0")
    written = csv_encoder()(filled)
    for same in (list(filled), tuple(filled), filled._asdict()):
        assert csv_encoder()(same) == written
    assert csv_encoder([*filled._asdict()])(filled._asdict()) == written


INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "at", "type": ["null", INSTANT], "default": None},
        {"name": "local", "type": ["null", {**INSTANT, "logicalType": "local-timestamp-millis"}]},
        {"name": "amounts", "type": {"type": "array", "items": AMOUNT}},
        {"name": "parts", "type": {"type": "map", "values": ["null", "Order"]}},
    ],
}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"at": datetime.datetime(2026, 3, 1)}, "has no time zone (tzinfo) - at `$.at`"),
        (
            {"amounts": [Decimal(1), Decimal("NaN")]},
            "Decimal('NaN') is not a finite number - at `$.amounts[1]`",
        ),
        ({"parts": {"a": {"at": datetime.datetime(2026, 3, 1)}}}, "- at `$.parts.a.at`"),
    ],
)
def test_what_avro_has_no_value_for_is_told_with_its_field(
    changed: dict[str, Any], problem: str
) -> None:
    at = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    local = at.replace(tzinfo=None)
    whole = {"at": at, "local": local, "amounts": [Decimal("1.5")], "parts": {"none": None}}
    part = {name: whole | value for name, value in changed.get("parts", {}).items()}
    encode = avro_encoder(ORDER)
    decode = avro_decoder(schema=ORDER)
    assert decode(encode(whole | {"parts": {"a": whole}}))["parts"]["a"]["at"] == at
    with pytest.raises(ValueError, match=re.escape(problem)):
        encode(whole | changed | ({"parts": part} if part else {}))


@pytest.mark.parametrize(
    ("amount", "problem"),
    [
        ("99.9", "Decimal('99.9') has 4 digits at scale 2; the precision is 3 - at `$`"),
        ("1E+9", "Decimal('1E+9') has 12 digits at scale 2; the precision is 3 - at `$`"),
        ("1.005", "Decimal('1.005') has 3 decimal places; the scale is 2 - at `$`"),
    ],
)
def test_a_decimal_that_does_not_fit_is_refused(amount: str, problem: str) -> None:
    encode = avro_encoder({**AMOUNT, "precision": 3})
    with pytest.raises(ValueError, match=re.escape(problem)):
        encode(Decimal(amount))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2) | st.just(Decimal("0E+7")))
def test_a_decimal_is_encoded_if_the_precision_suffices(amount: Decimal) -> None:
    fits = abs(amount) < 1000
    encode = avro_encoder({**AMOUNT, "precision": 5})
    with (
        contextlib.nullcontext() if fits else pytest.raises(ValueError, match="the precision is 5")
    ):
        assert avro_decoder(schema={**AMOUNT, "precision": 5})(encode(amount)) == amount


OLD = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "string"}]}
_EMPTY = {"name": "Part", "type": "record", "fields": [{"name": "n", "type": "int", "default": 5}]}
NEW = {
    **OLD,
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "data", "type": "bytes", "default": "\u00ff"},
        {"name": "amount", "type": AMOUNT, "default": "\u0001"},
        {"name": "at", "type": INSTANT, "default": 0},
        {"name": "part", "type": _EMPTY, "default": {}},
        {"name": "again", "type": "Part", "default": {"n": 6}},
        {"name": "either", "type": ["null", "Part"], "default": None},
        {"name": "real", "type": ["null", "double"], "default": 1},
    ],
}
DEFAULTS = {
    "tags": [],
    "data": b"\xff",
    "amount": Decimal("0.01"),
    "at": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    "part": {"n": 5},
    "again": {"n": 6},
    "either": None,
    "real": 1.0,
}


def test_a_field_that_the_writer_did_not_have_has_its_default_as_a_value_of_its_own() -> None:
    decode = avro_decoder(schema=NEW, writer_schema=OLD)
    row = avro_encoder(OLD)({"id": "a"})
    for _ in range(2):
        message = decode(row)
        assert message == {"id": "a", **DEFAULTS}
        message["tags"].append("changed")
        message["part"]["n"] = 7
    encoded = avro_encoder(NEW)({"id": "a"})
    assert avro_decoder(schema=NEW)(encoded) == {"id": "a", **DEFAULTS}


def test_defaults_within_lists_and_recursive_records() -> None:
    old = {"name": "Node", "type": "record", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    kids = {"name": "kids", "type": {"type": "array", "items": "Node"}, "default": []}
    new = {**old, "fields": [*old["fields"], kids]}
    decode = avro_decoder(
        schema={"type": "array", "items": new}, writer_schema={"type": "array", "items": old}
    )
    encoded = avro_encoder({"type": "array", "items": old})([{"next": {"next": None}}])
    for _ in range(2):
        (node,) = decode(encoded)
        assert node == {"next": {"next": None, "kids": []}, "kids": []}
        node["kids"].append(1)
        node["next"]["kids"].append(1)


@pytest.mark.parametrize(
    "codec", [(json_decoder, json_encoder), (msgpack_decoder, msgpack_encoder)]
)
def test_an_omitted_field_is_an_attribute_of_the_object_like_any_other(codec: Any) -> None:
    make, encoder = codec
    plain = {"symbol": "A", "price": 1.0}
    whole = Trade("A", 1.0)
    for kind, message in (
        (Trade, plain),
        (list[Trade], [plain]),
        (dict[str, Trade | None], {"a": plain, "b": None}),
        (Pair, {"first": plain, "others": [plain]}),
    ):
        found = make(kind)(encoder()(message))
        trades = [found] if isinstance(found, Trade) else []
        trades += found if isinstance(found, list) else []
        trades += [found["a"]] if isinstance(found, dict) else []
        trades += [found.first, *found.others] if isinstance(found, Pair) else []
        assert trades
        assert all(vars(trade) == vars(whole) for trade in trades)
    assert csv_encoder()(json_decoder(Spot)(b'{"price":1.0,"symbol":"A"}')) == b"A,1.0,"


def test_an_empty_cell_of_an_optional_text_is_none() -> None:
    spot = csv_decoder(Spot)(b"A,1.0,")
    assert spot == Spot("A", 1.0, None)
    assert vars(spot) == {"symbol": "A", "price": 1.0, "note": None}
    assert csv_decoder(SpotModel)(b",") == SpotModel(symbol="", note=None)


def test_columns_of_the_same_name_are_refused() -> None:
    for names in (["a", "a"], []):
        with pytest.raises(WallarooParameterError, match="expected a different name for each"):
            csv_decoder(names)


def test_what_an_encoder_adds() -> None:
    assert json_encoder(framing="lines")([1]) == b"[1]\n"
    assert json_encoder(framing="frames")([1]) == b"\0\0\0\x03[1]"
    assert msgpack_encoder(framing="frames")(1) == b"\0\0\0\x01\x01"
    assert csv_encoder(framing="lines", delimiter=";")(["a", 1]) == b"a;1\n"
    assert protobuf_encoder(framing="frames")(Line(count=1)) == b"\0\0\0\x02\x10\x01"
    assert avro_encoder("string", framing="frames")("a") == b"\0\0\0\x02\x02a"
