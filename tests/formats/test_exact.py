"""Numbers are decoded and encoded exactly, or refused with their place."""

from __future__ import annotations

import collections
import datetime
import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.codecs import (
    avro_decoder,
    avro_encoder,
    csv_encoder,
    json_decoder,
    json_encoder,
    msgpack_decoder,
    msgpack_encoder,
)

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
FIXED = {**AMOUNT, "type": "fixed", "name": "Amount", "size": 16}


def record(**fields: Any) -> dict[str, Any]:
    parts = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Order", "fields": parts}


ORDER = record(
    symbol="string",
    amounts={"type": "array", "items": AMOUNT},
    paid=["null", FIXED],
    back={"type": "map", "values": "Amount"},
)


def encoded(unscaled: int, size: int) -> bytes:
    return bytes([2 * size]) + unscaled.to_bytes(size, "big", signed=True)


@given(st.integers(-(10**6), 10**6), st.integers(3, 20))
def test_a_decimal_is_decoded_if_its_precision_suffices(unscaled: int, size: int) -> None:
    payload = encoded(unscaled, size)
    decode = avro_decoder(schema=AMOUNT)
    if abs(unscaled) < 10**4:
        assert decode(payload) == Decimal(unscaled) / 100
    else:
        told = f"a decimal of {size} bytes has more digits than its precision, 4 - at `$` (byte 1)"
        with pytest.raises(ValueError, match=re.escape(told)):
            decode(payload)


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        ("$.amounts[1]", {"amounts": [Decimal(1), Decimal("123.45")]}),
        ("$.paid", {"paid": Decimal("123.45")}),
        ("$.back['a']", {"back": {"a": Decimal("123.45")}}),
    ],
)
def test_a_decimal_beyond_its_precision_is_told_with_its_field(
    place: str, changed: dict[str, Any]
) -> None:
    larger = json.loads(json.dumps(ORDER).replace('"precision": 4', '"precision": 5'))
    order = {"symbol": "ABC", "amounts": [], "paid": None, "back": {}} | changed
    payload = avro_encoder(larger)(order)
    assert avro_decoder(schema=larger)(payload) == order
    with pytest.raises(ValueError, match=re.escape(f"than its precision, 4 - at `{place}`")):
        avro_decoder(schema=ORDER)(payload)


def test_a_reader_of_another_version_reads_decimals_exactly_too() -> None:
    old, new = record(a=AMOUNT), record(a=AMOUNT, b={"type": "array", "items": "float"})
    new["fields"][1]["default"] = []
    payload = avro_encoder(old)({"a": Decimal("1.25")})
    decode = avro_decoder(schema=new, writer_schema=old)
    assert decode(payload) == {"a": Decimal("1.25"), "b": []}
    with pytest.raises(ValueError, match="than its precision"):
        decode(encoded(99_999, 3))


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("float", 1e39, "1e+39 does not fit a float, of 32 bits - at `$.value`"),
        (["null", "float"], -1e39, "-1e+39 does not fit a float, of 32 bits - at `$.value`"),
        ("int", 2**31, "2147483648 does not fit an int, of 32 bits - at `$.value`"),
        ("int", np.int64(2**40), "does not fit an int, of 32 bits - at `$.value`"),
        ("int", 2**300, "the integer does not fit an int, of 32 bits - at `$.value`"),
        (record(deep="int"), {"deep": 2**31}, "of 32 bits - at `$.value.deep`"),
        (["null", record(deep="int")], {"deep": 2**31}, "of 32 bits - at `$.value.deep`"),
        ("int", "x", "Message.value is <x> of type <class 'str'> expected int"),
        ("float", "x", "Message.value is <x> of type <class 'str'> expected float"),
    ],
)
def test_a_number_that_its_type_is_too_small_for_is_refused(
    kind: Any, value: Any, told: str
) -> None:
    encode = avro_encoder({**record(value=kind), "name": "Message"})
    with pytest.raises(ValueError, match=re.escape(told)):
        encode({"value": value})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", float("inf")),
        ("float", 3.4028234663852886e38),
        ("int", -(2**31)),
        (["float", "double"], 1e39),
        (["int", "long"], 2**40),
        (["null", "int", "string"], 7),
    ],
)
def test_a_number_takes_the_branch_that_it_fits(kind: Any, value: Any) -> None:
    assert avro_decoder(schema=kind)(avro_encoder(kind)(value)) == value


def test_all_fields_that_have_the_value_are_named() -> None:
    encode = avro_encoder(record(bid=AMOUNT, ask=AMOUNT))
    price = Decimal("123.45")
    with pytest.raises(ValueError, match=re.escape("at `$.bid` and `$.ask`")):
        encode({"bid": price, "ask": price})


def test_a_number_of_json_that_no_float_is_large_enough_for_is_refused() -> None:
    class Price(pydantic.BaseModel):
        price: float

    for decode in (json_decoder(), json_decoder(Price), json_decoder(dict[str, float])):
        for number in (b"1e999", b"-1E+400", b"9" * 400 + b".0"):
            with pytest.raises(ValueError, match="out of range"):
                decode(b'{"price": %b}' % number)
        assert decode(b'{"price": 1e300}')
    note = b'{"price": 1.5, "note": "1e999"}'
    assert json_decoder(Price)(note) == Price(price=1.5)


NUMPYS = [
    (np.float64(1.5), 1.5),
    (np.float32(1.5), 1.5),
    (np.int64(-3), -3),
    (np.uint8(3), 3),
    (np.bool_(True), True),
    (np.str_("ABC"), "ABC"),
]


@pytest.mark.parametrize(("value", "plain"), NUMPYS, ids=repr)
def test_what_behaves_as_a_number_or_a_text_is_written_as_one(value: Any, plain: Any) -> None:
    for nest in (lambda value: value, lambda value: {"mean": [value]}):
        for decode, encode in (
            (json_decoder(), json_encoder()),
            (msgpack_decoder(), msgpack_encoder()),
        ):
            written = encode(nest(value))
            assert written == encode(nest(plain))
            assert decode(written) == nest(plain)
    assert csv_encoder()([value]) == csv_encoder()([plain])


def test_so_are_keys_of_dictionaries() -> None:
    assert json_encoder()({np.int64(1): 1, np.float64(2.5): 2}) == b'{"1":1,"2.5":2}'
    assert msgpack_encoder()({np.int64(1): 1}) == msgpack_encoder()({1: 1})


@pytest.mark.parametrize("key", [None, True, (1, object()), frozenset({1})])
def test_a_key_that_json_has_no_text_for_is_told_as_a_key(key: Any) -> None:
    for output in ({key: 1}, [{"a": {key: 1}}]):
        told = f"a key of a dictionary is .*, of class {type(key).__name__}; "
        with pytest.raises(TypeError, match=told):
            json_encoder()(output)


@pytest.mark.parametrize("value", [object(), Fraction(1, 3), 1j, collections.deque()])
def test_other_objects_are_told_with_their_class(value: Any) -> None:
    for encode in (json_encoder(), msgpack_encoder()):
        with pytest.raises(TypeError, match=f"an object of class {type(value).__name__} cannot"):
            encode({"a": value, "at": datetime.date(2026, 3, 1)})
