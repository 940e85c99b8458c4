"""What a codec decodes has the type that it was asked for; a step that does not fit is told."""

from dataclasses import dataclass
from typing import NamedTuple

import wallaroo
from wallaroo.codecs import csv_decoder, json_decoder, json_encoder, msgpack_decoder


@dataclass
class Trade:
    symbol: str
    price: float


class Row(NamedTuple):
    symbol: str


@wallaroo.computation(name="symbol")
def symbol(trade: Trade) -> str:
    return trade.symbol


@wallaroo.computation(name="length")
def length(text: str) -> int:
    return len(text)


reveal_type(json_decoder(Trade))  # R: Decoder[Trade]
reveal_type(json_decoder())  # R: Decoder[Any]
reveal_type(json_decoder(list[Trade]))  # R: Decoder[list[Trade]]
reveal_type(msgpack_decoder(Row)(b""))  # R: Row
reveal_type(csv_decoder(["a"])(b""))  # R: dict[str, str] | None
reveal_type(csv_decoder()(b""))  # R: list[str]

TRADES = wallaroo.source("trades", wallaroo.TCPSourceConfig("", 7010, json_decoder(Trade)))
reveal_type(TRADES)  # R: Pipeline[Trade]
reveal_type(TRADES.to(symbol))  # R: Pipeline[str]
ROWS = wallaroo.source("rows", wallaroo.HTTPSourceConfig("", 7010, csv_decoder(Row, header=True)))
reveal_type(ROWS)  # R: Pipeline[Row]
TRADES.to_sink(wallaroo.TCPSinkConfig("", 7002, json_encoder(framing="lines")))

TRADES.to(length)  # E: Argument 1 to "to" of "Pipeline" has incompatible type
ROWS.to(symbol)  # E: Argument 1 to "to" of "Pipeline" has incompatible type
json_decoder(Trade, strict=1)  # E: No overload variant
json_encoder(framing="crlf")  # E: Argument "framing" to "json_encoder"
