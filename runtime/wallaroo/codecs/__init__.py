"""Decoders and encoders for JSON, MessagePack, Avro, Protobuf and CSV.

Each function returns what the decorators `wallaroo.decoder` and `wallaroo.encoder` return. JSON,
MessagePack, Avro and typed CSV require the extra `wallaroo[codecs]`.

Example:
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Trade:
    ...     symbol: str
    ...     price: float
    >>> decode, encode = json_decoder(Trade), json_encoder()
    >>> decode(b'{"symbol": "ABC", "price": 1.5}')
    Trade(symbol='ABC', price=1.5)
    >>> encode(Trade("ABC", 1.5))
    b'{"symbol":"ABC","price":1.5}'
"""

from wallaroo.codecs._avro import avro_decoder, avro_encoder
from wallaroo.codecs._csv import csv_decoder, csv_encoder
from wallaroo.codecs._json import json_decoder, json_encoder
from wallaroo.codecs._msgpack import msgpack_decoder, msgpack_encoder
from wallaroo.codecs._protobuf import protobuf_decoder, protobuf_encoder
from wallaroo.codecs._registry import SchemaRegistry, SchemaRegistryError

__all__ = [
    "SchemaRegistry",
    "SchemaRegistryError",
    "avro_decoder",
    "avro_encoder",
    "csv_decoder",
    "csv_encoder",
    "json_decoder",
    "json_encoder",
    "msgpack_decoder",
    "msgpack_encoder",
    "protobuf_decoder",
    "protobuf_encoder",
]
