"""Types of messages that the tests of codecs share."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass
class Leg:
    symbol: str
    amount: int


@dataclass
class Trade:
    symbol: str
    price: float
    side: Side = Side.BUY
    legs: list[Leg] = field(default_factory=list)
    note: str | None = None


@dataclass
class Spot:
    symbol: str
    price: float
    note: str | None = None


class SpotModel(pydantic.BaseModel):
    symbol: str
    note: str | None


@dataclass(frozen=True)
class Pair:
    first: Trade
    others: list[Trade]


class TradeStruct(msgspec.Struct):
    symbol: str
    price: float


class TradeDict(TypedDict):
    symbol: str
    price: float


class TradeRow(NamedTuple):
    symbol: str
    price: float
    lots: int | None = 1


class Filled(NamedTuple):
    side: Side
    at: datetime.datetime
    after: datetime.timedelta
    amount: Decimal
    note: bytes = b""


class TradeModel(pydantic.BaseModel):
    symbol: str
    price: float


@dataclass
class Everything:
    """What Avro has, logical types among it."""

    flag: bool
    number: int
    real: float
    data: bytes
    text: str
    side: Side
    items: list[int]
    by_name: dict[str, float]
    when: datetime.datetime
    day: datetime.date
    amount: Decimal
    id: uuid.UUID
    maybe: int | None


EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "namespace": "shop",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "number", "type": "long"},
        {"name": "real", "type": "double"},
        {"name": "data", "type": "bytes"},
        {"name": "text", "type": "string"},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["buy", "sell"]}},
        {"name": "items", "type": {"type": "array", "items": "long"}},
        {"name": "by_name", "type": {"type": "map", "values": "double"}},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "maybe", "type": ["null", "long"]},
    ],
}
TRADE: dict[str, Any] = {
    "type": "record",
    "name": "Trade",
    "fields": [{"name": "symbol", "type": "string"}, {"name": "price", "type": "double"}],
}
ORDER_PROTO = """
syntax = "proto3";
package shop;
message Line { string item = 1; int64 count = 2; }
message Order {
  message Note { string text = 1; }
  string customer = 1;
  repeated Line lines = 2;
  Note note = 3;
}
"""


def _file() -> descriptor_pb2.FileDescriptorProto:
    """What protoc makes of ORDER_PROTO."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/order.proto", package="shop", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(
        message: Any, number: int, name: str, kind: Any, of: str = "", *, many: bool = False
    ) -> None:
        label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, type_name=of or None, label=label)

    line, order = file.message_type.add(name="Line"), file.message_type.add(name="Order")
    add(line, 1, "item", kinds.TYPE_STRING)
    add(line, 2, "count", kinds.TYPE_INT64)
    add(order.nested_type.add(name="Note"), 1, "text", kinds.TYPE_STRING)
    add(order, 1, "customer", kinds.TYPE_STRING)
    add(order, 2, "lines", kinds.TYPE_MESSAGE, ".shop.Line", many=True)
    add(order, 3, "note", kinds.TYPE_MESSAGE, ".shop.Order.Note")
    return file


ORDER_FILE = _file()
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(ORDER_FILE)
Order: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("shop.Order"))
Line: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("shop.Line"))
Note: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("shop.Order.Note"))
