# Rows with other columns than the type has fields.
# $ wallaroo simulate application.py
# < A,1.5,2
# < A,high
# < "A,1.5
from typing import NamedTuple

import wallaroo
from parts import built
from wallaroo.codecs import csv_decoder, csv_encoder


class Trade(NamedTuple):
    symbol: str
    price: float


def application_setup(args):
    trades = wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, csv_decoder(Trade)))
    return built(trades.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, csv_encoder())))
