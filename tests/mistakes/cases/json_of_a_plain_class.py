# A decoder for a class that says nothing about its fields.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built
from wallaroo.codecs import json_decoder


class Trade:
    def __init__(self, symbol):
        self.symbol = symbol


def application_setup(args):
    return built(wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, json_decoder(Trade))).to_sink(SINK))
