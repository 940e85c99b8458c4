# A decoder where an encoder belongs, and the other way round.
# $ wallaroo check application.py
import wallaroo
from parts import built
from wallaroo.codecs import json_decoder, json_encoder


def application_setup(args):
    source = wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, json_encoder()))
    return built(source.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, json_decoder())))
