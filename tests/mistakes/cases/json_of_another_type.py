# A message of JSON with a field of another type, and one that is no JSON.
# $ wallaroo simulate application.py
# < {"symbol": "A", "price": "high"}
# < {"symbol": "A"}
# < symbol: A
from dataclasses import dataclass

import wallaroo
from parts import built
from wallaroo.codecs import json_decoder, json_encoder


@dataclass
class Trade:
    symbol: str
    price: float


def application_setup(args):
    trades = wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, json_decoder(Trade)))
    return built(trades.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, json_encoder())))
